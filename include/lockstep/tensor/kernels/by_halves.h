// Long combinations as trees of short ones: the rounding error of a sum grows with the logarithm of its length.
#pragma once

#include <cstdint>
#include <type_traits>

#include <lockstep/core/dtype.h>

namespace lockstep {

inline constexpr std::int64_t kChain = 128;  ///< Elements that are combined one after another.

/// part(begin, begin + most), into which merge(total, next) takes the next `most` elements, then the next 2 * most, 4 *
/// most and so on, each made in the same way; no more than there are. What is merged with what depends on the range
/// alone.
template <class Part, class Merge, class A = std::invoke_result_t<const Part&, std::int64_t, std::int64_t>>
LOCKSTEP_HD A by_halves(std::int64_t begin, std::int64_t end, std::int64_t most, const Part& part, const Merge& merge) {
  A total = part(begin, end - begin < most ? end : begin + most);
  for (std::int64_t count = most; count < end - begin; count *= 2)
    merge(total, by_halves(begin + count, end - begin < 2 * count ? end : begin + 2 * count, most, part, merge));
  return total;
}

}  // namespace lockstep
