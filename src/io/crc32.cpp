#include "io/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "eight bytes are taken as one little-endian number");

// The CRC of each single byte.
constexpr std::array<std::uint32_t, 256> table_of(std::uint32_t polynomial) {
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? polynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr auto kCrc32cTable = table_of(0x82F63B78u);

// Processes eight bytes at a time: M. E. Kounavis, F. L. Berry, "A systematic approach to building high performance
// software-based CRC generators", ISCC 2005. Table k has the CRC of each byte followed by
// k zero bytes.
constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables = {};
  tables[0] = table_of(0xEDB88320u);
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}();

}  // namespace

std::uint32_t crc32_of(const void* data, std::size_t bytes, std::uint32_t crc) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; bytes > 0; --bytes, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

std::uint32_t crc32c_of(const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t crc = ~0u;
  for (; bytes > 0; --bytes, ++at) crc = (crc >> 8) ^ kCrc32cTable[(crc ^ *at) & 0xff];
  return ~crc;
}

}  // namespace lockstep
