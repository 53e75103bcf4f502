#include <algorithm>
#include <array>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "data/images/decode.h"
#include "io/byte_source.h"

namespace lockstep::data {
namespace {

constexpr std::array<unsigned char, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::array<unsigned char, 3> kJpeg = {0xff, 0xd8, 0xff};

template <std::size_t N>
bool begins(const std::vector<unsigned char>& bytes, const std::array<unsigned char, N>& mark) {
  return bytes.size() >= N && std::equal(mark.begin(), mark.end(), bytes.begin());
}

}  // namespace

Tensor pixels_of(const EncodedImage& image, std::int64_t height, std::int64_t width, std::int64_t channels) {
  if (width > image.options.max_pixels / std::max<std::int64_t>(height, 1))
    throw InvalidArgument(text("[read_image] expected at most ", image.options.max_pixels, " pixels, got ", width,
                               " by ", height, " in ", image.path));
  return empty({height, width, channels}, {.dtype = kUInt8});
}

Tensor read_image(const std::filesystem::path& path, const ImageOptions& options) {
  FileSource source(path, Links::follow, "read_image");
  std::vector<unsigned char> bytes(std::size_t(source.size()));
  if (!bytes.empty()) source.read(0, bytes.data(), bytes.size());
  const EncodedImage image = {source.name(), bytes, options};
  const bool is_png = begins(bytes, kPng);
  if (!is_png && !begins(bytes, kJpeg)) throw FormatError(source.name(), 0, "expected a PNG or a JPEG, got neither");
  return (is_png ? decode_png(image) : decode_jpeg(image)).permute({2, 0, 1}).contiguous();
}

}  // namespace lockstep::data
