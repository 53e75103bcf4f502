// Numbers as texts, always as in the C locale.
#pragma once

#include <charconv>
#include <iterator>
#include <string>

namespace lockstep {

/// As printf prints a finite number: %.4g for chars_format::general and 4.
inline std::string digits_of(double value, std::chars_format format, int precision) {
  char digits[400];  // the largest double has 309 before the point
  return {digits, std::to_chars(digits, std::end(digits), value, format, precision).ptr};
}

}  // namespace lockstep
