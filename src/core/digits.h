// Numbers as texts, always as in the C locale.
#pragma once

#include <charconv>
#include <iterator>
#include <string>

namespace lockstep {

/// A finite number's digits as printf prints them: for chars_format::general and precision 4, as with %.4g.
inline std::string digits_of(double value, std::chars_format format, int precision) {
  char digits[400];  // the largest double has 309 digits before the point
  return {digits, std::to_chars(digits, std::end(digits), value, format, precision).ptr};
}

}  // namespace lockstep
