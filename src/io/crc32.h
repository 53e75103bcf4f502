// CRC-32 of zip and PNG (the polynomial 0xEDB88320, ISO 3309). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// Extends `crc`, the CRC of earlier bytes (0 if there are none), by `bytes` more.
std::uint32_t crc32_of(const void* data, std::size_t bytes, std::uint32_t crc = 0) noexcept;

}  // namespace lockstep
