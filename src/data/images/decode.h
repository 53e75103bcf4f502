// Decoders of images, one file for each library; where a library is not built in, without_NAME.cpp takes its place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>

#include <lockstep/data/image.h>

#include "io/byte_source.h"

namespace lockstep::data {

struct EncodedImage {
  ByteSource& source;
  const ImageOptions& options;
};

/// A file block by block, for libraries that are written in C: no error leaves it but by rethrow().
class Blocks {
 public:
  explicit Blocks(ByteSource& source) : source_(source) {}

  /// Those that follow, if any are left. False at the end of the file, and where it cannot be read.
  bool next() noexcept;
  const unsigned char* data() const noexcept { return block_.data(); }
  std::size_t size() const noexcept { return size_; }
  std::uint64_t end() const noexcept { return end_; }  ///< Byte of the file behind the block.
  /// Throws the error that reading met, if it met one.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  ByteSource& source_;
  std::array<unsigned char, 64 << 10> block_;
  std::size_t size_ = 0;
  std::uint64_t end_ = 0;
  std::exception_ptr error_;
};

/// uint8 [height, width, channels]. Throw as read_image().
Tensor decode_png(const EncodedImage& image);
Tensor decode_jpeg(const EncodedImage& image);

/// A tensor for pixels. Throws InvalidArgument for too many, and FormatError where the file has fewer than
/// `least_bytes`, which the format takes for them: before memory is taken.
Tensor pixels_of(const EncodedImage& image, std::int64_t height, std::int64_t width, std::int64_t channels,
                 double least_bytes);

}  // namespace lockstep::data
