// Builds messages: text("expected ", shape, ", got ", other).
#pragma once

#include <locale>
#include <sstream>
#include <string>

namespace lockstep {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());  // texts become keys and files too, the same ones in every locale
  (out << ... << parts);
  return out.str();
}

}  // namespace lockstep
