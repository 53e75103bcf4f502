// Writes an uncompressed PNG file; needs no library. Pure functions.
// (https://www.w3.org/TR/png-3/; RFC 1950 and 1951 for stored blocks.)
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

/// `pixels`: rows of `width` pixels of `channels` bytes: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA. At least one pixel.
std::string png_bytes(std::span<const std::uint8_t> pixels, std::uint32_t width, std::uint32_t height, int channels);

}  // namespace lockstep
