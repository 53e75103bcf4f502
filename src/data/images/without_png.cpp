// Replaces png.cpp in a build without libpng.
#include "data/images/decode.h"

namespace lockstep::data {

Tensor decode_png(const EncodedImage& image) { throw_without("libpng", image); }

bool reads_png() noexcept { return false; }

}  // namespace lockstep::data
