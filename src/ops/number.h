// Checks which integer dtypes can hold a number.
#pragma once

#include <cmath>

#include <lockstep/core/dtype.h>

namespace lockstep {

/// True if `dtype`, an integer dtype, holds the number exactly. No integer dtype holds a fraction, an infinity or NaN.
inline bool holds(DType dtype, double number) {
  const bool is_unsigned = dtype == kUInt8;
  const double end = std::ldexp(1, 8 * int(size_of(dtype)) - (is_unsigned ? 0 : 1));
  return std::floor(number) == number && number >= (is_unsigned ? 0 : -end) && number < end;
}

}  // namespace lockstep
