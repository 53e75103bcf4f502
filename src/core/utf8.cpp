#include "core/utf8.h"

namespace lockstep {

// RFC 3629, section 4.
std::size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? std::uint8_t(text[i]) : std::uint8_t(0); };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const std::uint8_t first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    // Invalid: an overlong encoding, or one half of a surrogate pair.
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
    return continues(1) && continues(2) ? 3 : 0;
  }
  if (first < 0xf0 || first > 0xf4 || (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return continues(1) && continues(2) && continues(3) ? 4 : 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::uint32_t code_of(std::string_view character) {
  if (character.size() == 1) return std::uint8_t(character[0]);
  std::uint32_t code = std::uint8_t(character[0]) & (0x7fu >> character.size());
  for (const char c : character.substr(1)) code = code << 6 | (std::uint8_t(c) & 0x3f);
  return code;
}

void append_utf8(std::string& to, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { to += char(byte); };
  const auto add_six = [&](int shift) { add(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) return add(0xc0 | code >> 6), add_six(0);
  if (code < 0x10000) return add(0xe0 | code >> 12), add_six(6), add_six(0);
  add(0xf0 | code >> 18), add_six(12), add_six(6), add_six(0);
}

}  // namespace lockstep
