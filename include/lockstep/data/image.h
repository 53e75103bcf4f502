// Reads PNG and JPEG files. The readers are built in if libpng and libjpeg are found (LOCKSTEP_IMAGES). Safe from any
// thread.
#pragma once

#include <cstdint>
#include <filesystem>

#include <lockstep/core/export.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

struct ImageOptions {
  /// Larger images are refused before memory is allocated: a small file can hold a huge image.
  std::int64_t max_pixels = 178'956'970;
};

/// Returns uint8 [channels, height, width] on the CPU, with the file's channels: 1 (grey), 2 (grey and
/// alpha), 3 (RGB) or 4 (RGBA). Palettes are converted to colours, 16-bit samples to their upper 8 bits. The format is
/// detected by the content. Throws FormatError for a file that is not PNG or JPEG, is damaged or truncated, or is a
/// JPEG in CMYK or with more than 100 scans; InvalidArgument for an image of more pixels than allowed, and if the
/// format is not built in; IoError if the file cannot be read.
LOCKSTEP_API Tensor read_image(const std::filesystem::path& path, const ImageOptions& options = {});

/// Writes uint8 [channels, height, width], on any device, as an uncompressed PNG. Channels: 1 (grey), 2 (grey and
/// alpha), 3 (RGB) or 4 (RGBA). Needs no library. The file is written atomically. Throws DTypeError and ShapeError for
/// other tensors, InvalidArgument for an undefined one and for more than 2^30 bytes of pixels, and IoError.
LOCKSTEP_API void write_png(const std::filesystem::path& path, const Tensor& image);

/// True if this build of the library reads the format.
LOCKSTEP_API bool reads_png() noexcept;
LOCKSTEP_API bool reads_jpeg() noexcept;

}  // namespace lockstep::data
