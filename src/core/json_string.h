// Texts as JSON strings (RFC 8259, section 7). Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `plain` as a JSON string, with its quotes. < is escaped, so that the string may stand in an HTML page's script.
inline std::string json_string(std::string_view plain) {
  std::string out = "\"";
  for (const char c : plain) {
    if (c == '"' || c == '\\')
      out.append({'\\', c});
    else if (static_cast<unsigned char>(c) < 0x20 || c == '<')
      out.append({'\\', 'u', '0', '0', "0123"[c >> 4], "0123456789abcdef"[c & 0xf]});
    else
      out += c;
  }
  return out + '"';
}

}  // namespace lockstep
