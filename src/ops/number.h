// Which integer dtypes can hold a number.
#pragma once

#include <cmath>

#include <lockstep/core/dtype.h>

namespace lockstep {

/// Whether `dtype`, of integers, holds the number exactly. None holds a fraction, an infinity or what is not a number.
inline bool holds(DType dtype, double number) {
  const bool is_unsigned = dtype == kUInt8;
  const double end = std::ldexp(1, 8 * int(size_of(dtype)) - (is_unsigned ? 0 : 1));
  return std::floor(number) == number && number >= (is_unsigned ? 0 : -end) && number < end;
}

}  // namespace lockstep
