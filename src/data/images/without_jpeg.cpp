// Replaces jpeg.cpp in a build without libjpeg.
#include "data/images/decode.h"

namespace lockstep::data {

Tensor decode_jpeg(const EncodedImage& image) { throw_without("libjpeg", image); }

bool reads_jpeg() noexcept { return false; }

}  // namespace lockstep::data
