// Decoders of images, one file for each library; where a library is not built in, without_NAME.cpp takes its place.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <lockstep/data/image.h>

namespace lockstep::data {

/// Of a whole file in memory.
struct EncodedImage {
  const std::string& path;
  std::span<const unsigned char> bytes;
  const ImageOptions& options;
};

/// uint8 [height, width, channels]. Throw as read_image().
Tensor decode_png(const EncodedImage& image);
Tensor decode_jpeg(const EncodedImage& image);

/// A tensor for pixels. Throws InvalidArgument for too many.
Tensor pixels_of(const EncodedImage& image, std::int64_t height, std::int64_t width, std::int64_t channels);

}  // namespace lockstep::data
