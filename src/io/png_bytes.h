// The bytes of a PNG file, not compressed: no library is needed. Pure functions.
// (https://www.w3.org/TR/png-3/; RFC 1950 and 1951 for the blocks that are stored.)
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

/// `pixels`: rows of `width` pixels of `channels` bytes: grey, grey and opacity, RGB, or RGB and opacity (1 to 4). At
/// least one pixel.
std::string png_bytes(std::span<const std::uint8_t> pixels, std::uint32_t width, std::uint32_t height, int channels);

}  // namespace lockstep
