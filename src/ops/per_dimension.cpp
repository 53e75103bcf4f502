#include <lockstep/ops/per_dimension.h>

#include <optional>
#include <ostream>
#include <utility>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {

Shape PerDimension::over(const char* op, const char* what, int dims, std::int64_t least) const {
  const std::optional<std::int64_t> all = each_.rank() == 1 ? each_[0] : all_;
  if (!all && each_.rank() != dims)
    throw ShapeError(text("[", op, "] expected one ", what, ", or ", dims, " (one for each dimension), got ", each_));
  const Shape numbers = all ? Shape::filled(dims, *all) : each_;
  for (const std::int64_t number : numbers)
    if (number < least)
      throw InvalidArgument(text("[", op, "] expected ", what, " of at least ", least, ", got ", number));
  return numbers;
}

std::ostream& operator<<(std::ostream& out, const PerDimension& numbers) {
  if (numbers.all_) return out << *numbers.all_;
  const char* separator = "(";
  for (const std::int64_t number : numbers.each_) out << std::exchange(separator, ", ") << number;
  return out << ')';
}

}  // namespace lockstep
