// Long combinations as trees of short ones: the rounding error of a sum grows with the logarithm of its length.
#pragma once

#include <cstdint>
#include <type_traits>

#include <lockstep/core/dtype.h>

namespace lockstep {

inline constexpr std::int64_t kChain = 128;  ///< Elements that are combined one after another.
inline constexpr int kLanes = 16;            ///< Chains beside each other, for vector registers.

/// part(begin, begin + most), into which merge(total, next) takes the next `most` elements, then the next 2 * most, 4 *
/// most and so on, each made in the same way; no more than there are. What is merged with what depends on the range
/// alone. (Not by calling itself: then all of it can be inlined.)
template <class Part, class Merge, class A = std::invoke_result_t<const Part&, std::int64_t, std::int64_t>>
LOCKSTEP_HD A by_halves(std::int64_t begin, std::int64_t end, std::int64_t most, const Part& part, const Merge& merge) {
  if (end - begin <= most) return part(begin, end);
  A open[48];  // totals of 2^n parts that wait for their other halves, n descending
  int count = 0;
  for (std::int64_t done = 0; begin < end; ++done, begin += most) {
    open[count++] = part(begin, end - begin < most ? end : begin + most);
    for (std::int64_t n = done; n & 1; n >>= 1, --count) merge(open[count - 2], open[count - 1]);
  }
  for (; count > 1; --count) merge(open[count - 2], open[count - 1]);
  return open[0];
}

/// The same of element(total, i), which takes an element into a chain that begins with `start`, and combine(total,
/// next). Long chains lie beside each other.
template <class A, class Element, class Combine>
LOCKSTEP_HD A by_lanes(std::int64_t begin, std::int64_t end, const A& start, const Element& element,
                       const Combine& combine) {
  A total = start;
  std::int64_t i = begin;
  if (end - begin >= 2 * kLanes) {
    A lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = start;
    for (; i + kLanes <= end; i += kLanes)
#pragma GCC ivdep
      for (int l = 0; l < kLanes; ++l) lanes[l] = element(lanes[l], i + l);
    for (int l = 0; i < end; ++i, ++l) lanes[l] = element(lanes[l], i);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lanes[l] = combine(lanes[l], lanes[l + half]);
    return lanes[0];
  }
  for (; i < end; ++i) total = element(total, i);
  return total;
}

}  // namespace lockstep
