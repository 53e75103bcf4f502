// Escapes text for HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::train {

/// Escapes a text for content and for attributes. Control characters, which XML does not allow, become blanks.
inline std::string escaped(std::string_view plain) {
  std::string out;
  for (const char c : plain) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

}  // namespace lockstep::train
