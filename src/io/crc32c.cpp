#include "io/crc32c.h"

#include <array>

namespace lockstep {
namespace {

constexpr auto kCrc32cTable = [] {
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0);
    table[byte] = crc;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32c_of(const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t crc = ~0u;
  for (; bytes > 0; --bytes, ++at) crc = (crc >> 8) ^ kCrc32cTable[(crc ^ *at) & 0xff];
  return ~crc;
}

}  // namespace lockstep
