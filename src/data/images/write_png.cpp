#include <lockstep/core/error.h>
#include <lockstep/data/image.h>
#include <lockstep/io/atomic_file.h>

#include "core/expect.h"
#include "io/png_bytes.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kMaxPngBytes = 1 << 30;  // of pixels, since lengths in a PNG are below 2^31

}  // namespace

void write_png(const std::filesystem::path& path, const Tensor& image) {
  expect(image.defined(), "write_png", "an image, got an undefined tensor");
  expect<DTypeError>(image.dtype() == kUInt8, "write_png", "uint8, got ", image.dtype(),
                     image.is_floating_point() ? ": write (image * 255).round().to(kUInt8)" : "");
  expect<ShapeError>(image.dim() == 3 && image.size(0) >= 1 && image.size(0) <= 4 && image.numel() > 0, "write_png",
                     "[channels, height, width] of 1 to 4 channels and at least one pixel, "
                     "got ",
                     image.sizes());
  expect(image.numel() <= kMaxPngBytes, "write_png", "at most ", kMaxPngBytes, " bytes of pixels, got ", image.numel());
  const Tensor rows = image.detach().cpu().permute({1, 2, 0}).contiguous();
  const std::string bytes = png_bytes({rows.data<std::uint8_t>(), std::size_t(rows.numel())},
                                      std::uint32_t(rows.size(1)), std::uint32_t(rows.size(0)), int(rows.size(2)));
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace lockstep::data
