// Images in files: PNG and JPEG. Readers are built in where their library (libpng, libjpeg) is found: LOCKSTEP_IMAGES.
// Safe from any thread.
#pragma once

#include <cstdint>
#include <filesystem>

#include <lockstep/core/export.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

struct ImageOptions {
  std::int64_t max_pixels = 178'956'970;  ///< Refuse larger images, whose files may be small, before memory is taken.
};

/// uint8 [channels, height, width] on the CPU, as the file has it: 1 channel of grey, 2 with opacity, 3 of red, green
/// and blue, 4 with opacity. Palettes become colours, and 16 bits the upper 8. The format is known by the content.
/// Throws FormatError for what is no PNG or JPEG, for a damaged or cut off file, and for a JPEG in CMYK or of more than
/// 100 scans;
/// InvalidArgument for an image of more pixels than allowed, and where the format is not built in; IoError where the
/// file cannot be read.
LOCKSTEP_API Tensor read_image(const std::filesystem::path& path, const ImageOptions& options = {});

/// Writes uint8 [channels, height, width], from wherever it is, as a PNG that is not compressed: 1 channel of grey, 2
/// with opacity, 3 of red, green and blue, 4 with opacity. Needs no library. The file appears whole or not at all.
/// Throws DTypeError and ShapeError for another tensor, InvalidArgument for an undefined one and for more than 2^30
/// bytes of pixels, and IoError.
LOCKSTEP_API void write_png(const std::filesystem::path& path, const Tensor& image);

/// What this build of the library reads.
LOCKSTEP_API bool reads_png() noexcept;
LOCKSTEP_API bool reads_jpeg() noexcept;

}  // namespace lockstep::data
