// CRC-32 of zip and PNG (the polynomial 0xEDB88320, ISO 3309); CRC-32C of TFRecord (Castagnoli, the polynomial
// 0x82F63B78; RFC 3720, section 12.1). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// Extends `crc`, the CRC of earlier bytes (0 if there are none), by `bytes` more.
std::uint32_t crc32_of(const void* data, std::size_t bytes, std::uint32_t crc = 0) noexcept;

std::uint32_t crc32c_of(const void* data, std::size_t bytes) noexcept;
/// The masked form of a CRC, which TFRecord files have: a CRC of bytes that contain a CRC would be degenerate.
/// (TensorFlow, tsl/lib/hash/crc32c.h.)
constexpr std::uint32_t masked_crc32c(std::uint32_t crc) noexcept { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace lockstep
