// UTF-8 (RFC 3629). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// The length of the character at the beginning of a text, in bytes; 0 if the text does not begin with a valid
/// character.
std::size_t utf8_bytes(std::string_view text);
/// True if all of the text is valid UTF-8.
bool is_utf8(std::string_view text);
/// The code point of a character, whose bytes are valid UTF-8.
std::uint32_t code_of(std::string_view character);
/// Appends the character with this code point.
void append_utf8(std::string& to, std::uint32_t code);

}  // namespace lockstep
