// libFuzzer on the PNG reader: any bytes are rejected by FormatError, rejected by InvalidArgument as too many pixels,
// or read as an image. The sanitizers check the rest. Mutations usually break checksums, so most are repaired.
#include <cstring>
#include <random>
#include <string_view>

#include <lockstep/core/error.h>

#include "data/readers.h"
#include "fuzz/limits.h"
#include "io/crc32.h"
#include "support/memory_source.h"

using namespace lockstep;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

constexpr std::int64_t kMaxPixels = 1 << 16;

std::uint32_t big_endian(const std::uint8_t* at) {
  return std::uint32_t(at[0]) << 24 | std::uint32_t(at[1]) << 16 | std::uint32_t(at[2]) << 8 | at[3];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 2 && data[0] == 0xff) return 0;  // a JPEG
  // A row of four channels per pixel, twice, and libpng's own buffers, which libpng bounds.
  const fuzz::Limits limits(size, {.bytes = 8 << 20, .bytes_per_byte = 16});
  lockstep::testing::MemorySource source(std::string_view(reinterpret_cast<const char*>(data), size));
  try {
    const Tensor image = data::read_image(source, {.max_pixels = kMaxPixels});
    fuzz::require(image.dim() == 3 && image.size(1) * image.size(2) <= kMaxPixels, "an image of no more pixels");
  } catch (const FormatError& error) {
    fuzz::require(error.offset <= size, "an offset within the file");
  } catch (const InvalidArgument&) {
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (std::minstd_rand(seed)() % 8 == 0) return size;
  for (std::size_t at = 8; at + 12 <= size;) {  // length, type, data, checksum
    const std::size_t length = big_endian(data + at);
    if (length > size - at - 12) break;
    const std::uint32_t crc = crc32_of(data + at + 4, 4 + length);
    for (std::size_t i = 0; i < 4; ++i) data[at + 8 + length + i] = std::uint8_t(crc >> (24 - 8 * i));
    at += 12 + length;
  }
  return size;
}
