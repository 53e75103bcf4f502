#include <lockstep/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <vector>

#include <lockstep/io/atomic_file.h>

#include "core/text.h"
#include "io/checksum.h"
#include "io/header_checksum.h"
#include "io/safetensors_file.h"
#include "io/safetensors_header.h"
#include "io/tensor_bytes.h"
#include "tensor/copy.h"
#include "tensor/deferred_memory.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and copied as it is");

constexpr std::size_t kBlock = 256 << 10;  // bytes read and hashed at once, so that hashing finds them in the cache

struct Opened {
  Header header;
  std::uint64_t data_begin;
};

Opened open(ByteSource& source, bool verify) {
  constexpr const char* kKinds = "expected a safetensors file, or one that PyTorch saved, got ";
  if (source.size() < kLengthBytes) source.fail(0, kKinds, "a file of ", source.size(), " bytes");
  const std::uint64_t rest = source.size() - kLengthBytes;
  std::uint64_t length = 0;
  source.read(0, &length, sizeof length);
  if (length > kMaxHeaderBytes)
    source.fail(0, kKinds, "a file that begins with ",
                shown(source.bytes_at(0, std::min<std::uint64_t>(source.size(), 24))),
                ": give the file that lockstep::save() or torch.save() wrote");
  if (length > rest)
    source.fail(0, "expected a header of ", length, " bytes, got a file in which ", rest,
                " bytes follow: it was cut off");
  const std::string json = source.bytes_at(kLengthBytes, length);
  if (verify) verify_header(source.name(), json);
  Opened file = {parse_header(source.name(), json, rest - length), kLengthBytes + length};
  take_checksums(source.name(), json, file.header, verify);
  return file;
}

// Reads a tensor block by block. place(offset) returns the destination of the block at that offset.
template <class Place>
void read_data(ByteSource& source, const Opened& file, const Entry& entry, const Place& place) {
  const std::uint64_t begin = file.data_begin + entry.begin, bytes = entry.end - entry.begin;
  Checksum checksum;
  for (std::uint64_t done = 0; done < bytes; done += kBlock) {
    const auto block = std::size_t(std::min<std::uint64_t>(kBlock, bytes - done));
    std::byte* const to = place(done);
    source.read(begin + done, to, block);
    if (entry.checksum) checksum.add(to, block);
    if (entry.dtype == kBool) check_bools(source, begin + done, to, block, "BOOL");
  }
  if (entry.checksum && checksum.value() != *entry.checksum)
    source.fail(begin, "expected data with checksum ", checksum_digits(*entry.checksum), " of tensor ",
                shown(entry.key), ", got ", checksum_digits(checksum.value()), ": the file is damaged");
}

}  // namespace

Contents read(ByteSource& source, const ReadOptions& options) {
  DeviceState& cpu = device_state(Device());
  DeviceState& target = device_state(options.device);
  Opened file = open(source, options.verify);
  StateDict tensors;
  for (const Entry& entry : file.header.entries) {
    const Tensor host = make_tensor(cpu, entry.shape, entry.dtype);
    read_data(source, file, entry, [to = host.impl()->data()](std::uint64_t done) { return to + done; });
    tensors.add(entry.key, &target == &cpu ? host : copied(host, target, entry.dtype));
  }
  return {std::move(tensors), std::move(file.header.metadata)};
}

Contents read_deferred(const std::shared_ptr<ByteSource>& source, const ReadOptions& options) {
  const auto file = std::make_shared<const Opened>(open(*source, options.verify));
  StateDict tensors;
  for (const Entry& entry : file->header.entries)
    tensors.add(entry.key, make_deferred(entry.shape, entry.dtype, [source, file, &entry](const Tensor& flat) {
                  read_data(*source, *file, entry,
                            [to = flat.impl()->data()](std::uint64_t done) { return to + done; });
                }));
  return {std::move(tensors), file->header.metadata};
}

FileMetadata read_metadata(ByteSource& source, const ReadOptions& options) {
  return open(source, options.verify).header.metadata;
}

void verify(ByteSource& source) {
  const Opened file = open(source, true);
  std::vector<std::byte> block(kBlock);
  for (const Entry& entry : file.header.entries)
    read_data(source, file, entry, [&](std::uint64_t) { return block.data(); });
}

void write(const StateDict& state, const FileMetadata& metadata, const Sink& sink) {
  Header header{.entries = {}, .metadata = metadata};
  std::vector<const Tensor*> tensors;
  for (const auto& [key, tensor] : state) {
    if (!tensor.defined())
      throw InvalidArgument(text("[save] expected a tensor for \"", key, "\", got an undefined one"));
    tensors.push_back(&tensor);
    header.entries.push_back({.key = key, .dtype = tensor.dtype(), .shape = tensor.sizes()});
  }

  // Sorts by element size, largest first: then each tensor begins at a multiple of its element size.
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return size_of(header.entries[i].dtype); });
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    Entry& entry = header.entries[i];
    entry.begin = end;
    entry.end = end += std::uint64_t(entry.shape.elements()) * size_of(entry.dtype);
  }

  const std::uint64_t length = header_json(header).size();  // with zeros as checksums, which are as long
  DeviceState& cpu = device_state(Device());
  for (const std::size_t i : order) {
    const Tensor& tensor = *tensors[i];
    Entry& entry = header.entries[i];
    Checksum checksum;
    if (tensor.numel() > 0) {
      const bool is_ready = tensor.device().is_cpu() && tensor.is_contiguous();
      const Tensor host = is_ready ? tensor : copied(tensor, cpu, tensor.dtype());
      for (std::uint64_t done = entry.begin; done < entry.end; done += kBlock) {
        const auto block = std::size_t(std::min<std::uint64_t>(kBlock, entry.end - done));
        const std::byte* const from = host.impl()->data() + (done - entry.begin);
        checksum.add(from, block);
        sink(kLengthBytes + length + done, from, block);
      }
    }
    entry.checksum = checksum.value();
  }
  sink(0, &length, sizeof length);
  sink(kLengthBytes, header_json(header).data(), length);
}

}  // namespace safetensors

void save(const StateDict& state, const std::filesystem::path& path, const FileMetadata& metadata) {
  AtomicFile file(path);
  safetensors::write(state, metadata, [&](auto... piece) { file.write_at(piece...); });
  file.commit();
}

}  // namespace lockstep
