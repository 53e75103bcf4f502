// Builds messages: text("expected ", shape, ", got ", other).
#pragma once

#include <sstream>
#include <string>

namespace lockstep {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace lockstep
