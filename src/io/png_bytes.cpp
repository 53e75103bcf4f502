#include "io/png_bytes.h"

#include <algorithm>
#include <array>

#include "io/crc32.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxStored = 0xffff;  // bytes of a stored block

void append_big_endian(std::string& to, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to += char(number >> shift);
}

void append_chunk(std::string& to, const std::string& type_and_data) {
  append_big_endian(to, std::uint32_t(type_and_data.size() - 4));
  to += type_and_data;
  append_big_endian(to, crc32_of(type_and_data.data(), type_and_data.size()));
}

std::uint32_t adler32_of(const std::string& bytes) {
  std::uint32_t a = 1, b = 0;
  for (const char c : bytes) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

std::string stored(const std::string& bytes) {
  std::string out = "\x78\x01";  // deflate, a window of 32 KiB, no dictionary
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min(kMaxStored, bytes.size() - at);
    out += char(at + size == bytes.size());
    out.append({char(size), char(size >> 8), char(~size), char(~size >> 8)});
    out.append(bytes, at, size);
    at += size;
  }
  append_big_endian(out, adler32_of(bytes));
  return out;
}

}  // namespace

std::string png_bytes(std::span<const std::uint8_t> pixels, std::uint32_t width, std::uint32_t height, int channels) {
  constexpr std::array kColorTypes = {'\0', '\4', '\2', '\6'};
  std::string header = "IHDR", rows;
  append_big_endian(header, width);
  append_big_endian(header, height);
  header.append({8, kColorTypes[std::size_t(channels - 1)], 0, 0, 0});
  const std::size_t row_bytes = std::size_t(width) * std::size_t(channels);
  for (std::uint32_t row = 0; row < height; ++row) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + row * row_bytes, row_bytes);
  }
  std::string file = "\x89PNG\r\n\x1a\n";
  append_chunk(file, header);
  append_chunk(file, "IDAT" + stored(rows));
  append_chunk(file, "IEND");
  return file;
}

}  // namespace lockstep
