// libFuzzer on the JPEG reader: any bytes are rejected by FormatError, rejected by InvalidArgument as too many pixels,
// or read as an image. The sanitizers check the rest.
#include <string_view>

#include <lockstep/core/error.h>

#include "data/readers.h"
#include "fuzz/limits.h"
#include "support/memory_source.h"

using namespace lockstep;

namespace {

constexpr std::int64_t kMaxPixels = 1 << 16;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 2 && data[0] == 0x89) return 0;  // a PNG
  // Three channels per pixel, twice, and their coefficients. The time is that of the most scans, each over all pixels.
  const fuzz::Limits limits(size, {.bytes = 8 << 20, .bytes_per_byte = 16, .seconds = 4});
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
