// Image decoders, one file per library. Without the library, without_NAME.cpp is compiled in place of NAME.cpp.
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

/// Reads a file in blocks for a C library, through which no exception may pass: next() stores errors, and rethrow()
/// throws them later.
class Blocks {
 public:
  explicit Blocks(ByteSource& source) : source_(source) {}

  /// Reads the next block. Returns false at the end of the file, and if it cannot be read.
  bool next() noexcept;
  const unsigned char* data() const noexcept { return block_.data(); }
  std::size_t size() const noexcept { return size_; }
  std::uint64_t end() const noexcept { return end_; }  ///< The file position after the block.
  /// Throws the error that next() stored, if there is one.
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

/// Return uint8 [height, width, channels]. Throw as read_image() does.
Tensor decode_png(const EncodedImage& image);
Tensor decode_jpeg(const EncodedImage& image);
/// Throws InvalidArgument: this build has no such library.
[[noreturn]] void throw_without(const char* library, const EncodedImage& image);

/// Allocates the tensor of pixels. Before that, throws InvalidArgument for too many pixels, and FormatError if the file
/// is shorter than `least_bytes`, the smallest size that the format can give these pixels.
Tensor pixels_of(const EncodedImage& image, std::int64_t height, std::int64_t width, std::int64_t channels,
                 double least_bytes);

}  // namespace lockstep::data
