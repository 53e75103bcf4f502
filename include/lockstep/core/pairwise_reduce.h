// Pairwise reductions (trees of short chains): the rounding error of a sum grows with the logarithm of its length.
#pragma once

#include <cstdint>
#include <type_traits>

#include <lockstep/core/dtype.h>
#include <lockstep/core/vectorized.h>

namespace lockstep {

inline constexpr std::int64_t kChain = 128;  ///< Elements that a chain combines one after another.
inline constexpr int kLanes = 16;            ///< Chains side by side, for vector registers.

/// Reduces [begin, end) pairwise: part(begin, end) reduces each block of `most` elements (the last may be shorter), and
/// merge(total, next) merges the totals of neighbouring blocks as a binary tree. The order of merging depends on the
/// range alone. This is a loop, not a recursion, so that the compiler can inline it.
template <class Part, class Merge, class A = std::invoke_result_t<const Part&, std::int64_t, std::int64_t>>
LOCKSTEP_HD A pairwise_reduce(std::int64_t begin, std::int64_t end, std::int64_t most, const Part& part,
                              const Merge& merge) {
  if (end - begin <= most) return part(begin, end);
  A open[48];  // totals of 2^n blocks that wait for their other halves, n descending
  int count = 0;
  for (std::int64_t done = 0; begin < end; ++done, begin += most) {
    open[count++] = part(begin, end - begin < most ? end : begin + most);
    for (std::int64_t n = done; n & 1; n >>= 1, --count) merge(open[count - 2], open[count - 1]);
  }
  for (; count > 1; --count) merge(open[count - 2], open[count - 1]);
  return open[0];
}

/// Reduces [begin, end): element(total, i) adds an element to a chain that begins with `start`, and combine(total,
/// next) joins two chains. Ranges of at least 2 * kLanes elements use kLanes chains side by side.
template <class A, class Element, class Combine>
LOCKSTEP_HD A lane_reduce(std::int64_t begin, std::int64_t end, const A& start, const Element& element,
                          const Combine& combine) {
  A total = start;
  std::int64_t i = begin;
  if (end - begin >= 2 * kLanes) {
    A lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = start;
    for (; i + kLanes <= end; i += kLanes) {
      LOCKSTEP_IVDEP
      LOCKSTEP_NO_UNROLL
      for (int l = 0; l < kLanes; ++l) lanes[l] = element(lanes[l], i + l);
    }
    for (int l = 0; i < end; ++i, ++l) lanes[l] = element(lanes[l], i);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lanes[l] = combine(lanes[l], lanes[l + half]);
    return lanes[0];
  }
  for (; i < end; ++i) total = element(total, i);
  return total;
}

}  // namespace lockstep
