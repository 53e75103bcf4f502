// Replaces jpeg.cpp in a build without libjpeg.
#include <filesystem>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "data/images/decode.h"

namespace lockstep::data {

Tensor decode_jpeg(const EncodedImage& image) {
  throw InvalidArgument(text("[read_image] expected a build of Lockstep with libjpeg for ",
                             std::filesystem::path(image.source.name()),
                             ", got one without: install it and configure with -DLOCKSTEP_IMAGES=ON"));
}

bool reads_jpeg() noexcept { return false; }

}  // namespace lockstep::data
