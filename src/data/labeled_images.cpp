// The formats: http://yann.lecun.com/exdb/mnist (idx), https://www.cs.toronto.edu/~kriz/cifar.html (binary version).
#include <lockstep/data/labeled_images.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "io/byte_source.h"
#include "io/tensor_bytes.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCifarClasses = 10, kCifarSide = 32, kCifarPixels = 3 * kCifarSide * kCifarSide;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Returns the first of these files that exists; if none does, the first one, so that opening it names the missing file.
fs::path found(const char* op, const std::vector<fs::path>& places) {
  for (const fs::path& place : places)
    if (is_there(place)) return place;
  for (const fs::path& place : places)
    if (const fs::path packed = place.string() + ".gz"; is_there(packed))
      throw InvalidArgument(text('[', op, "] expected unpacked files, got ", packed, ": run gunzip on it"));
  return places[0];
}

fs::path mnist_file(const fs::path& folder, Part part, const std::string& what, const std::string& type) {
  const std::string begin = (part == Part::train ? "train-" : "t10k-") + what;
  std::vector<fs::path> places;
  for (const fs::path& in : {folder, folder / "MNIST" / "raw"})
    for (const char* separator : {"-", "."}) places.push_back(in / (begin + separator + type));
  return found("read_mnist", places);
}

std::uint32_t big_endian(const std::array<std::uint8_t, 4>& bytes) {
  return std::uint32_t(bytes[0]) << 24 | std::uint32_t(bytes[1]) << 16 | std::uint32_t(bytes[2]) << 8 | bytes[3];
}

// Reads an idx file of unsigned bytes with that many dimensions.
Tensor read_idx(const fs::path& path, int rank) {
  FileSource file(path, Links::follow, "read_mnist");
  const std::uint64_t header = 4 * std::uint64_t(rank + 1);
  if (file.size() < header) file.fail(0, "expected an idx header of ", header, " bytes, got a file of ", file.size());
  const auto number = [&](std::uint64_t offset) {
    std::array<std::uint8_t, 4> bytes;
    file.read(offset, bytes.data(), bytes.size());
    return big_endian(bytes);
  };
  const std::uint32_t magic = 0x800 + std::uint32_t(rank);
  if (const std::uint32_t got = number(0); got != magic)
    file.fail(0, "expected the number ", magic, " of idx files with bytes in ", rank, " dimensions, got ", got);
  Shape sizes;
  for (int dim = 0; dim < rank; ++dim) sizes.push_back(std::int64_t(number(4 * std::uint64_t(dim + 1))));
  const std::optional<std::uint64_t> bytes = tensor_bytes(sizes, kUInt8);
  if (bytes != file.size() - header)
    file.fail(4, "expected sizes that fit the ", file.size() - header, " bytes of data, got ", sizes);
  const Tensor result = empty(sizes, {.dtype = kUInt8});
  file.read(header, result.data<std::uint8_t>(), std::size_t(*bytes));
  return result;
}

}  // namespace

LabeledImages read_mnist(const fs::path& folder, Part part) {
  const fs::path image_file = mnist_file(folder, part, "images", "idx3-ubyte"),
                 label_file = mnist_file(folder, part, "labels", "idx1-ubyte");
  const Tensor images = read_idx(image_file, 3), labels = read_idx(label_file, 1);
  if (images.size(0) != labels.size(0))
    throw FormatError(label_file.string(), 4,
                      text("expected a label for each of ", images.size(0), " images, got ", labels.size(0)));
  return {images.unsqueeze(1), labels.to(kInt64)};
}

LabeledImages read_cifar10(const fs::path& folder, Part part) {
  std::vector<std::string> names = {"test_batch.bin"};
  if (part == Part::train)
    names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
  constexpr std::uint64_t kRecord = 1 + kCifarPixels;

  std::vector<std::unique_ptr<FileSource>> files;
  std::uint64_t count = 0;
  for (const std::string& name : names) {
    const fs::path path = found("read_cifar10", {folder / name, folder / "cifar-10-batches-bin" / name});
    files.push_back(std::make_unique<FileSource>(path, Links::follow, "read_cifar10"));
    const std::uint64_t size = files.back()->size();
    if (size % kRecord != 0)
      files.back()->fail(size - size % kRecord, "expected records of ", kRecord, " bytes, got ", size % kRecord,
                         " bytes at the end");
    count += size / kRecord;
  }

  const Tensor images = empty({std::int64_t(count), 3, kCifarSide, kCifarSide}, {.dtype = kUInt8});
  const Tensor labels = empty({std::int64_t(count)}, {.dtype = kInt64});
  std::uint8_t* pixels = images.data<std::uint8_t>();
  std::int64_t* label = labels.data<std::int64_t>();
  std::array<std::uint8_t, kRecord> record;
  for (const auto& file : files)
    for (std::uint64_t offset = 0; offset < file->size(); offset += kRecord) {
      file->read(offset, record.data(), record.size());
      if (record[0] >= kCifarClasses) file->fail(offset, "expected a label from 0 to 9, got ", int(record[0]));
      *label++ = record[0];
      pixels = std::copy(record.begin() + 1, record.end(), pixels);
    }
  return {images, labels};
}

Tensor read_bytes(const fs::path& path) {
  FileSource file(path, Links::follow, "read_bytes");
  const Tensor bytes = empty({std::int64_t(file.size())}, {.dtype = kUInt8});
  if (file.size() > 0) file.read(0, bytes.data<std::uint8_t>(), std::size_t(file.size()));
  return bytes;
}

}  // namespace lockstep::data
