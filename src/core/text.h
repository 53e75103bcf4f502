// Builds messages: text("expected ", shape, ", got ", other).
#pragma once

#include <locale>
#include <sstream>
#include <string>

namespace lockstep {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());  // texts are also used as keys and in files, which must not depend on the locale
  (out << ... << parts);
  return out.str();
}

}  // namespace lockstep
