// CRC-32C (Castagnoli, the polynomial 0x82F63B78; RFC 3720, section 12.1) and how TFRecord masks it. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

std::uint32_t crc32c_of(const void* data, std::size_t bytes) noexcept;

/// The masked form in files; the CRC of bytes that contain their own CRC would be degenerate.
/// (TensorFlow, tsl/lib/hash/crc32c.h.)
constexpr std::uint32_t masked_crc32c(std::uint32_t crc) noexcept { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace lockstep
