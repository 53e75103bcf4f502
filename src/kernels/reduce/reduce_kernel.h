// The kernel of reductions on the host. The loops over neighbouring elements are compiled for each reducer and compute
// type. The code around them, which chooses the order of combination and the threads, is compiled once for all:
// reduce_kernel.cpp. The order depends on shape and layout alone, never on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <lockstep/core/pairwise_reduce.h>
#include <lockstep/core/vectorized.h>
#include <lockstep/kernels/elementwise_kernel.h>
#include <lockstep/kernels/geometry.h>
#include <lockstep/runtime/kernel.h>

namespace lockstep {

/// The greatest size of an accumulator.
inline constexpr std::size_t kAccumulatorBytes = 8;

/// The loops of a reducer. They take elements in their compute type; accumulators are contiguous.
struct ReduceLoops {
  Stored in, out;
  std::size_t accumulator_bytes;
  void (*start)(const void* reducer, void* totals, std::int64_t count);
  /// totals[i] = the reduction of row i: `length` elements from values[i * stride] on.
  void (*rows)(const void* reducer, const void* values, std::int64_t stride, std::int64_t length, void* totals,
               std::int64_t count);
  /// Combines `rows` rows of `count` elements, `stride` elements apart, into the totals.
  void (*columns)(const void* reducer, const void* values, std::int64_t stride, std::int64_t rows, void* totals,
                  std::int64_t count);
  void (*merge)(const void* reducer, void* totals, const void* next, std::int64_t count);
  /// results[i] = R::finish(totals[i], reduced), in out's compute type; `reduced`: the elements combined in each total.
  void (*finish)(const void* reducer, const void* totals, std::int64_t reduced, void* results, std::int64_t count);
};

/// A reduction of in[o, r] over r to out[o].
struct ReductionPlan {
  std::byte* out;
  const std::byte* in;
  Geometry<2> kept;     // strides of out and in
  Geometry<1> reduced;  // strides of in
  // True if `in` is [reduced, kept], and out and the rows of `in` are dense. Then whole rows of `in` are combined.
  bool columns = false;
};

namespace host {
void reduce(const KernelContext& context, const ReductionPlan& plan, const ReduceLoops& loops, const void* reducer);
}  // namespace host

/// R's loops over elements of compute type C, for results of compute type Result.
template <class R, class Result, class C>
struct TypedReduceLoops {
  using A = typename R::Accumulator;
  static_assert(sizeof(A) <= kAccumulatorBytes && std::is_trivially_copyable_v<A>);

  static void start(const void* reducer, void* totals, std::int64_t count) {
    std::fill_n(static_cast<A*>(totals), count, static_cast<const R*>(reducer)->identity());
  }
  static void rows(const void* reducer, const void* values, std::int64_t stride, std::int64_t length, void* totals,
                   std::int64_t count) {
    vectorized([&] {
      const R r = *static_cast<const R*>(reducer);  // a copy, which no operand can alias
      const std::int64_t n = count, each = length;
      const C* from = static_cast<const C*>(values);
      A* const to = static_cast<A*>(totals);
      for (std::int64_t i = 0; i < n; ++i, from += stride)
        to[i] = lane_reduce(
            0, each, r.identity(), [&](const A& total, std::int64_t at) { return r.combine(total, r.load(from[at])); },
            [&](const A& a, const A& b) { return r.combine(a, b); });
    });
  }
  static void columns(const void* reducer, const void* values, std::int64_t stride, std::int64_t rows, void* totals,
                      std::int64_t count) {
    vectorized([&] {
      const R r = *static_cast<const R*>(reducer);
      const std::int64_t n = count, m = rows;
      const C* from = static_cast<const C*>(values);
      A* const to = static_cast<A*>(totals);
      for (std::int64_t row = 0; row < m; ++row, from += stride) {
        LOCKSTEP_IVDEP
        for (std::int64_t c = 0; c < n; ++c) to[c] = r.combine(to[c], r.load(from[c]));
      }
    });
  }
  static void merge(const void* reducer, void* totals, const void* next, std::int64_t count) {
    const R r = *static_cast<const R*>(reducer);
    A* const to = static_cast<A*>(totals);
    const A* const from = static_cast<const A*>(next);
    LOCKSTEP_IVDEP
    for (std::int64_t i = 0; i < count; ++i) to[i] = r.combine(to[i], from[i]);
  }
  static void finish(const void* reducer, const void* totals, std::int64_t reduced, void* results, std::int64_t count) {
    const R r = *static_cast<const R*>(reducer);
    for (std::int64_t i = 0; i < count; ++i)
      static_cast<Result*>(results)[i] = Result(r.finish(static_cast<const A*>(totals)[i], reduced));
  }
};

template <class R, class Out, class In>
inline constexpr ReduceLoops kReduceLoops = [] {
  using Loops = TypedReduceLoops<R, ComputeType<Out>, ComputeType<In>>;
  return ReduceLoops{kStored<In>,  kStored<Out>, sizeof(typename R::Accumulator),
                     Loops::start, Loops::rows,  Loops::columns,
                     Loops::merge, Loops::finish};
}();

}  // namespace lockstep
