// CRC-32 of zip and PNG (the polynomial 0xEDB88320, ISO 3309). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// Of `bytes` more after those whose CRC is `crc`; 0 for none.
std::uint32_t crc32_of(const void* data, std::size_t bytes, std::uint32_t crc = 0) noexcept;

}  // namespace lockstep
