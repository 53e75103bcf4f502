#include <algorithm>
#include <filesystem>
#include <string_view>

#include <lockstep/core/error.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "data/images/decode.h"
#include "data/readers.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n", kJpeg = "\xff\xd8\xff";

}  // namespace

bool Blocks::next() noexcept {
  size_ = std::size_t(std::min<std::uint64_t>(block_.size(), source_.size() - end_));
  if (size_ == 0) return false;
  try {
    source_.read(end_, block_.data(), size_);
  } catch (...) {
    error_ = std::current_exception();
    return false;
  }
  end_ += size_;
  return true;
}

void throw_without(const char* library, const EncodedImage& image) {
  throw InvalidArgument(text("[read_image] expected a build of Lockstep with ", library, " for ",
                             std::filesystem::path(image.source.name()),
                             ", got one without: install it and configure with -DLOCKSTEP_IMAGES=ON"));
}

Tensor pixels_of(const EncodedImage& image, std::int64_t height, std::int64_t width, std::int64_t channels,
                 double least_bytes) {
  if (width > image.options.max_pixels / std::max<std::int64_t>(height, 1))
    throw InvalidArgument(text("[read_image] expected at most ", image.options.max_pixels, " pixels, got ", width,
                               " by ", height, " in ", std::filesystem::path(image.source.name())));
  if (const std::uint64_t bytes = image.source.size(); double(bytes) < least_bytes)
    image.source.fail(bytes, "expected at least ", std::uint64_t(least_bytes), " bytes for ", width, " by ", height,
                      " pixels, got ", bytes, ": the file is cut off");
  return empty({height, width, channels}, {.dtype = kUInt8});
}

Tensor read_image(ByteSource& source, const ImageOptions& options) {
  const EncodedImage image = {source, options};
  const bool is_png = source.begins_with(kPng);
  if (!is_png && !source.begins_with(kJpeg)) source.fail(0, "expected a PNG or a JPEG, got neither");
  return (is_png ? decode_png(image) : decode_jpeg(image)).permute({2, 0, 1}).contiguous();
}

Tensor read_image(const std::filesystem::path& path, const ImageOptions& options) {
  FileSource source(path, Links::follow, "read_image");
  return read_image(source, options);
}

}  // namespace lockstep::data
