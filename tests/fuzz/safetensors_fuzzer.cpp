// libFuzzer on the safetensors reader: any bytes are rejected by FormatError, or read as tensors that can be written
// and read again. The sanitizers check the rest.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

#include "fuzz/limits.h"
#include "io/memory_source.h"
#include "io/safetensors_header.h"

using namespace lockstep;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

using fuzz::require;

namespace {

safetensors::Contents read(std::string_view bytes, bool verify) {
  lockstep::testing::MemorySource source(bytes);
  return safetensors::read(source, {.verify = verify});
}

// Reads a file with its checksums verified. If that succeeds, the tensors must be the same as without.
void try_verified(std::string_view bytes, const safetensors::Contents& unverified) {
  safetensors::Contents contents;
  try {
    contents = read(bytes, true);
  } catch (const FormatError& error) {
    require(error.offset <= bytes.size(), "an offset within the file");
    return;
  }
  require(lockstep::testing::same(contents.tensors, unverified.tensors), "the same tensors with checksums");
  require(contents.metadata == unverified.metadata, "the same metadata with checksums");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  safetensors::Contents contents;
  try {
    const fuzz::Limits limits(size, {.bytes = 4 << 20, .bytes_per_byte = 64});
    contents = read(file, false);
  } catch (const FormatError& error) {
    require(error.offset <= size, "an offset within the file");
    return 0;
  }
  try_verified(file, contents);
  std::size_t bytes = 0;
  for (const auto& [key, tensor] : contents.tensors) bytes += std::size_t(tensor.numel()) * size_of(tensor.dtype());
  require(bytes <= size, "no more data than the file has");
  const std::string written = lockstep::testing::written(contents.tensors, contents.metadata);
  const safetensors::Contents again = read(written, true);
  require(lockstep::testing::same(again.tensors, contents.tensors), "the same tensors from what was written");
  require(again.metadata == contents.metadata, "the same metadata from what was written");
  return 0;
}

// Mutations usually break the lengths that everything else depends on, so most are repaired: the header's length is set
// to the position of the last brace, and the file gets as many bytes of data as the offsets require.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t brace = bytes.rfind('}');
  const auto choice = std::minstd_rand(seed)() % 4;
  if (choice == 0 || brace == bytes.npos || brace < safetensors::kLengthBytes) return size;
  const std::uint64_t length = brace + 1 - safetensors::kLengthBytes;
  std::memcpy(data, &length, sizeof length);
  if (choice == 1) return size;

  std::size_t wanted = 0;
  const std::string_view mark = "\"data_offsets\":[";
  for (std::size_t at = bytes.find(mark); at < brace; at = bytes.find(mark, at + 1)) {
    char* end = nullptr;
    std::strtoull(bytes.c_str() + at + mark.size(), &end, 10);
    if (*end == ',') wanted = std::max<std::size_t>(wanted, std::strtoull(end + 1, nullptr, 10));
  }
  const std::size_t data_begin = brace + 1;
  if (wanted > max_size - data_begin) return size;
  if (data_begin + wanted > size) std::memset(data + size, 0, data_begin + wanted - size);
  return data_begin + wanted;
}
