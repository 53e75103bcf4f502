#include "data/readers.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/data/arrays.h>
#include <lockstep/io/atomic_file.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "core/utf8.h"
#include "data/npy_header.h"
#include "io/crc32.h"
#include "io/safetensors_header.h"
#include "io/skipped_values.h"
#include "io/tensor_bytes.h"
#include "io/zip_archive.h"
#include "io/zip_writer.h"
#include "tensor/tensor_impl.h"

namespace lockstep::data {
namespace {

using safetensors::shown;

// An entry of an archive as a ByteSource.
class EntrySource final : public ByteSource {
 public:
  EntrySource(ByteSource& archive, const ZipArchive::Entry& entry)
      : archive_(archive), entry_(entry), name_(archive.name() + ':' + entry.name) {}
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return entry_.bytes; }
  void read(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (offset > entry_.bytes || bytes > entry_.bytes - offset)
      fail(offset, "expected ", bytes, " bytes more, got the end");
    archive_.read(entry_.begin + offset, to, bytes);
  }

 private:
  ByteSource& archive_;
  const ZipArchive::Entry& entry_;
  std::string name_;
};

// Reads the data in the order of the file. For an array in Fortran order, the result has its dimensions reversed; the
// caller permutes them.
Tensor read_data(ByteSource& source, const NpyHeader& header) {
  if (!header.dtype)
    source.fail(header.text_begin, "expected one of |b1 |u1 <i4 <i8 <f2 <f4 <f8, got ", shown(header.description));
  const std::uint64_t available = source.size() - header.data_begin;
  const std::optional<std::uint64_t> bytes = tensor_bytes(header.sizes, *header.dtype);
  if (bytes != available)
    source.fail(header.text_begin, "expected sizes that fit the ", available, " bytes of data, got ", header.sizes);
  Shape sizes = header.sizes;
  if (header.is_fortran)
    for (int dim = 0; dim < sizes.rank(); ++dim) sizes[dim] = header.sizes[sizes.rank() - 1 - dim];
  const Tensor array = empty(sizes, {.dtype = *header.dtype});
  std::byte* const data = array.impl()->data();
  if (available > 0) source.read(header.data_begin, data, std::size_t(available));
  if (header.dtype == kBool) check_bools(source, header.data_begin, data, available, "bool");
  return array;
}

Tensor in_order(const Tensor& array, const NpyHeader& header) {
  if (!header.is_fortran) return array;
  Shape order;
  for (int dim = array.dim(); dim-- > 0;) order.push_back(dim);
  return array.permute(order);
}

std::size_t bytes_of(const Tensor& tensor) { return std::size_t(tensor.numel()) * size_of(tensor.dtype()); }

constexpr std::size_t kMaxNpzName = 60'000;

std::uint32_t crc_of(ByteSource& source, const NpyHeader& header, const Tensor& data) {
  const std::string before = source.bytes_at(0, header.data_begin);
  return crc32_of(data.impl()->data(), bytes_of(data), crc32_of(before.data(), before.size()));
}

// Returns the tensor contiguous on the CPU.
Tensor array_of(const char* op, const Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgument(text('[', op, "] expected a tensor, got an undefined one"));
  if (std::ranges::find(kNpyDTypes, tensor.dtype(), [](const auto& named) { return named.second; }) == kNpyDTypes.end())
    throw DTypeError(text('[', op, "] expected a dtype that NumPy has, got ", tensor.dtype()));
  return tensor.detach().cpu().contiguous();
}

// Returns the header, with NumPy's padding.
std::string header_of(const Tensor& array) {
  const auto* known = std::ranges::find(kNpyDTypes, array.dtype(), [](const auto& named) { return named.second; });
  std::string header = text("{'descr': '", known->first, "', 'fortran_order': False, 'shape': (");
  const Shape& sizes = array.sizes();
  for (int dim = 0; dim < sizes.rank(); ++dim) header += text(dim ? ", " : "", sizes[dim]);
  header += sizes.rank() == 1 ? ",), }" : "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string all(kNpyMagic);
  all.append({1, 0, char(header.size()), char(header.size() >> 8)});
  return all + header;
}

}  // namespace

Tensor read_npy(ByteSource& source) {
  const NpyHeader header = read_npy_header(source);
  return in_order(read_data(source, header), header);
}

StateDict read_npz(ByteSource& source, const ReadOptions& options) {
  ZipArchive archive(source);
  StateDict arrays;
  SkippedValues skipped;
  for (const ZipArchive::Entry& entry : archive.entries()) {
    if (entry.name.ends_with('/')) continue;  // a folder
    archive.check_stored(entry);
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    const auto leave_out = [&](std::string what) {
      if (options.verify) archive.verify(entry);
      skipped.add(name, std::move(what));
    };
    EntrySource part(source, entry);
    if (!part.begins_with(kNpyMagic)) {
      leave_out("no array");
      continue;
    }
    const NpyHeader header = read_npy_header(part);
    if (!header.dtype && !header.is_numeric()) {
      leave_out("an array of " + shown(header.description));
      continue;
    }
    const Tensor array = read_data(part, header);
    if (options.verify) archive.check_crc(entry, crc_of(part, header, array));
    if (arrays.find(name)) source.fail(entry.header, "expected each array once, got ", shown(name), " again");
    arrays.add(std::move(name), in_order(array, header).to(options.device));
  }
  skipped.report("read_npz", source.name(), options);
  return arrays;
}

Tensor read_npy(const std::filesystem::path& path) {
  FileSource source(path, Links::follow, "read_npy");
  return read_npy(source);
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const Tensor host = array_of("write_npy", tensor);
  const std::string header = header_of(host);
  AtomicFile file(path);
  file.write(header.data(), header.size());
  if (host.numel() > 0) file.write(host.impl()->data(), bytes_of(host));
  file.commit();
}

void write_npz(const std::filesystem::path& path, const StateDict& arrays) {
  std::vector<Tensor> hosts;
  for (const auto& [name, tensor] : arrays) {
    if (name.size() > kMaxNpzName || !is_utf8(name))
      throw InvalidArgument(text("[write_npz] expected names in UTF-8 of at most ", kMaxNpzName, " bytes, got ",
                                 shown(name), " of ", name.size()));
    hosts.push_back(array_of("write_npz", tensor));
  }
  AtomicFile file(path);
  ZipWriter archive(file);
  auto host = hosts.begin();
  for (const auto& [name, tensor] : arrays) {
    archive.add(name + ".npy", header_of(*host), host->impl()->data(), bytes_of(*host));
    ++host;
  }
  archive.finish();
  file.commit();
}

StateDict read_npz(const std::filesystem::path& path, const ReadOptions& options) {
  FileSource source(path, options.links, "read_npz");
  return read_npz(source, options);
}

}  // namespace lockstep::data
