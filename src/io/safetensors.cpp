#include <lockstep/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include <lockstep/io/atomic_file.h>

#include "core/text.h"
#include "io/safetensors_file.h"
#include "io/safetensors_header.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and copied as it is");

struct Opened {
  Header header;
  std::uint64_t data_begin;
};

Opened open(ByteSource& source) {
  const auto fail = [&](const auto&... reason) { throw FormatError(source.name(), 0, text(reason...)); };
  if (source.size() < kLengthBytes) fail("expected the 8 bytes of a length, got a file of ", source.size());
  const std::uint64_t rest = source.size() - kLengthBytes;
  std::uint64_t length = 0;
  source.read(0, &length, sizeof length);
  if (length > kMaxHeaderBytes) fail("expected a header of at most ", kMaxHeaderBytes, " bytes, got ", length);
  if (length > rest) fail("expected a header of at most the ", rest, " bytes that follow, got ", length);
  std::string json(length, '\0');
  source.read(kLengthBytes, json.data(), json.size());
  return {parse_header(source.name(), json, rest - length), kLengthBytes + length};
}

// A byte that is neither is no bool in C++.
void check_bools(const std::string& file, std::uint64_t offset, const std::byte* data, std::size_t bytes) {
  const std::byte* bad = std::find_if(data, data + bytes, [](std::byte value) { return value > std::byte(1); });
  if (bad != data + bytes)
    throw FormatError(file, offset + std::uint64_t(bad - data), text("expected 0 or 1 for a BOOL, got ", int(*bad)));
}

}  // namespace

Contents read(ByteSource& source, Device device) {
  DeviceState& cpu = device_state(Device());
  DeviceState& target = device_state(device);
  Opened file = open(source);
  StateDict tensors;
  for (const Entry& entry : file.header.entries) {
    const Tensor host = make_tensor(cpu, entry.shape, entry.dtype);
    const std::uint64_t offset = file.data_begin + entry.begin;
    if (const std::size_t bytes = entry.end - entry.begin) {
      source.read(offset, host.impl()->data(), bytes);
      if (entry.dtype == kBool) check_bools(source.name(), offset, host.impl()->data(), bytes);
    }
    tensors.add(entry.key, &target == &cpu ? host : copied(host, target, entry.dtype));
  }
  return {std::move(tensors), std::move(file.header.metadata)};
}

Metadata read_metadata(ByteSource& source) { return open(source).header.metadata; }

void write(const StateDict& state, const Metadata& metadata, const Sink& sink) {
  Header header{.entries = {}, .metadata = metadata};
  std::vector<const Tensor*> tensors;
  for (const auto& [key, tensor] : state) {
    if (!tensor.defined())
      throw InvalidArgument(text("[save] expected a tensor for \"", key, "\", got an undefined one"));
    tensors.push_back(&tensor);
    header.entries.push_back({.key = key, .dtype = tensor.dtype(), .shape = tensor.sizes()});
  }

  // The largest elements first: then each tensor lies at a multiple of its element's size.
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return size_of(header.entries[i].dtype); });
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    Entry& entry = header.entries[i];
    entry.begin = end;
    entry.end = end += std::uint64_t(entry.shape.elements()) * size_of(entry.dtype);
  }

  const std::string json = header_json(header);
  const std::uint64_t length = json.size();
  sink(&length, sizeof length);
  sink(json.data(), json.size());
  DeviceState& cpu = device_state(Device());
  for (const std::size_t i : order) {
    const Tensor& tensor = *tensors[i];
    if (tensor.numel() == 0) continue;
    const bool is_ready = tensor.device().is_cpu() && tensor.is_contiguous();
    const Tensor host = is_ready ? tensor : copied(tensor, cpu, tensor.dtype());
    sink(host.impl()->data(), std::size_t(header.entries[i].end - header.entries[i].begin));
  }
}

}  // namespace safetensors

void save(const StateDict& state, const std::filesystem::path& path, const Metadata& metadata) {
  AtomicFile file(path);
  safetensors::write(state, metadata, [&](const void* data, std::size_t bytes) { file.write(data, bytes); });
  file.commit();
}

StateDict load(const std::filesystem::path& path, const ReadOptions& options) {
  FileSource source(path);
  return safetensors::read(source, options.device).tensors;
}

Metadata load_metadata(const std::filesystem::path& path) {
  FileSource source(path);
  return safetensors::read_metadata(source);
}

}  // namespace lockstep
