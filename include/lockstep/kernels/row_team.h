// A row of an operand, and the team of threads that work on one row, as function objects see them. On the host the team
// is one thread, OneThread; on a GPU it is several threads with the same members: gpu::RowTeam of cuda/row_team.h, or,
// for a function object that takes rows of any type, gpu::PackTeam of cuda/row_packs.h.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <lockstep/core/dtype.h>
#include <lockstep/core/pairwise_reduce.h>
#include <lockstep/core/vectorized.h>
#include <lockstep/kernels/visit.h>

namespace lockstep {

template <class T>
struct RowOf {
  using Element = std::remove_const_t<T>;

  T* data;
  std::int64_t length;
  std::int64_t step;  ///< In elements.

  LOCKSTEP_HD T& operator[](std::int64_t i) const { return data[i * step]; }
};

/// A team of one thread. Its loops may become vector instructions.
class OneThread {
 public:
  static constexpr bool kSerial = true;
  using Index = std::int64_t;  ///< The index of an element in its row.

  /// Combines `length` elements: each thread combines some of them, in order, by value = step(value, i), beginning with
  /// the identity `start`. combine(value, value) then combines the threads' values, not in the order of the elements.
  /// All threads get the same result. The order of combination depends on the shape and the layout alone. Make the same
  /// calls for all rows, since neighbouring rows may share barriers; for a row with nothing to reduce, pass length 0.
  template <class A, class Step, class Combine>
  LOCKSTEP_HD A reduce(std::int64_t length, A start, const Step& step, const Combine& combine) const {
    return lane_reduce(0, length, start, step, combine);
  }

  /// Calls visit(i) for `length` elements; each i is always visited by the same thread.
  template <class Visit>
  LOCKSTEP_HD void each(std::int64_t length, const Visit& visit) const {
    LOCKSTEP_IVDEP
    for (std::int64_t i = 0; i < length; ++i) visit(i);
  }

  /// Returns the row, or a copy in registers if the team has enough of them. Use it for a row that is read repeatedly.
  template <class AnyRow>
  LOCKSTEP_HD const AnyRow& kept(const AnyRow& row) const {
    return row;
  }

  /// row[i] = value(i) for the whole row.
  template <class AnyRow, class Value>
  LOCKSTEP_HD void fill(const AnyRow& row, const Value& value) const {
    each(row.length, [&](std::int64_t i) { row[i] = value(i); });
  }

  LOCKSTEP_HD bool visits(std::int64_t) const { return true; }  ///< True if this thread visits the element in each().
  LOCKSTEP_HD bool first() const { return true; }  ///< True for the one thread that writes a row's single values.
};

/// Two sums that one pass over a row computes.
template <class A>
struct TwoSums {
  A first, second;
  LOCKSTEP_HD friend TwoSums operator+(const TwoSums& a, const TwoSums& b) {
    return {a.first + b.first, a.second + b.second};
  }
};

/// The sum of value(i), in value's type. A single thread sums pairwise, so that the rounding error does not grow with
/// the row.
template <class Team, class Value>
LOCKSTEP_HD auto sum_over(const Team& team, std::int64_t length, const Value& value) {
  using A = std::invoke_result_t<const Value&, typename Team::Index>;
  const auto add = [](const A& a, const A& b) { return a + b; };
  if constexpr (Team::kSerial)
    return pairwise_reduce(
        0, length, kChain * kLanes,
        [&](std::int64_t begin, std::int64_t end) LOCKSTEP_INLINE {
          return lane_reduce(
              begin, end, A{}, [&](const A& sum, std::int64_t i) { return sum + value(i); }, add);
        },
        [](A& sum, const A& next) { sum = sum + next; });
  else
    return team.reduce(
        length, A{}, [&](const A& sum, auto i) { return sum + value(i); }, add);
}

/// The greatest of the first `length` elements; -infinity if there are none. Ignores NaNs.
template <class Team, class AnyRow, class C = ComputeType<typename AnyRow::Element>>
LOCKSTEP_HD C greatest(const Team& team, const AnyRow& x, std::int64_t length) {
  return team.reduce(
      length, -std::numeric_limits<C>::infinity(), [&](C best, auto i) { return C(x[i]) > best ? C(x[i]) : best; },
      [](C a, C b) { return b > a ? b : a; });
}

/// True if f takes the rows without a team. Then one thread computes each row, on a GPU too.
template <class F, class... Rows>
inline constexpr bool kTakesNoTeam = std::is_invocable_v<const F&, Rows...>;

/// F::kIndependentOperand, or -1 if F does not declare it. An F that computes independent elements, without reduce(),
/// declares the number of the operand that has these elements. A GPU divides each row of that operand among threads.
template <class F>
inline constexpr int kIndependentOperand = [] {
  if constexpr (requires { F::kIndependentOperand; })
    return F::kIndependentOperand;
  else
    return -1;
}();

}  // namespace lockstep
