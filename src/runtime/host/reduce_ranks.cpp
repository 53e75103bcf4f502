#include "runtime/host/reduce_ranks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lockstep::host {
namespace {

// A block and its accumulator stay in the first-level cache while rank after rank is added.
constexpr std::size_t kBlock = 2048;

struct Sum {
  template <class A>
  static A combine(A a, A b) {
    return A(a + b);
  }
};
struct Max {
  template <class A>
  static A combine(A a, A b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <class A>
  static A combine(A a, A b) {
    return a < b || a != a ? a : b;
  }
};

// What T accumulates in. Sums of integers wrap around, so they are unsigned.
template <class T, class Op>
using Accumulator = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
                                       typename std::conditional_t<std::is_integral_v<T> && std::is_same_v<Op, Sum>,
                                                                   std::make_unsigned<T>, std::type_identity<T>>::type>;

template <class T>
T* at(void* data, std::size_t begin) {
  return static_cast<T*>(data) + begin;
}
template <class T>
const T* at(const void* data, std::size_t begin) {
  return static_cast<const T*>(data) + begin;
}

// Loops of their own, so that each becomes vector instructions.
template <class A, class T>
void convert(const T* from, A* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = A(from[i]);
}

// The elements as they accumulate: where they are, or, if they are narrower, in `wide`.
template <class A, class T>
const A* as_accumulators(const T* from, A* wide, std::size_t count) {
  if constexpr (sizeof(A) == sizeof(T)) {
    return reinterpret_cast<const A*>(from);  // the same type, or its unsigned one
  } else {
    convert(from, wide, count);
    return wide;
  }
}

template <class T, class Op>
void reduce_block(const RankReduction& reduction, double divisor, std::size_t begin, std::size_t count) {
  using A = Accumulator<T, Op>;
  A sums[kBlock], wide_first[kBlock], wide[kBlock];
  const A* sum = as_accumulators(at<T>(reduction.sources[0], begin), wide_first, count);
  for (std::size_t rank = 1; rank < reduction.sources.size(); ++rank) {
    const A* const next = as_accumulators(at<T>(reduction.sources[rank], begin), wide, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] = Op::combine(sum[i], next[i]);
    sum = sums;
  }
  if constexpr (std::is_floating_point_v<A>)
    if (divisor != 1)
      for (std::size_t i = 0; i < count; ++i) sums[i] /= A(divisor);

  if constexpr (sizeof(A) == sizeof(T)) {
    for (void* const target : reduction.targets) std::memcpy(at<T>(target, begin), sums, count * sizeof(T));
  } else {
    T narrow[kBlock];
    convert(sums, narrow, count);
    for (void* const target : reduction.targets) std::memcpy(at<T>(target, begin), narrow, count * sizeof(T));
  }
}

template <class T, class Op>
void reduce_all(const RankReduction& reduction, double divisor, std::size_t begin, std::size_t end) {
  for (; begin < end; begin += kBlock) reduce_block<T, Op>(reduction, divisor, begin, std::min(kBlock, end - begin));
}

template <class T>
void reduce_as(const RankReduction& reduction, ReduceOp op, std::size_t begin, std::size_t end) {
  switch (op) {
    case ReduceOp::kSum:
      return reduce_all<T, Sum>(reduction, 1, begin, end);
    case ReduceOp::kMean:
      return reduce_all<T, Sum>(reduction, double(reduction.sources.size()), begin, end);
    case ReduceOp::kMax:
      return reduce_all<T, Max>(reduction, 1, begin, end);
    case ReduceOp::kMin:
      return reduce_all<T, Min>(reduction, 1, begin, end);
  }
}

void copy(const RankReduction& reduction, std::size_t element, std::size_t begin, std::size_t end) {
  const auto* const from = static_cast<const std::byte*>(reduction.sources[0]) + begin * element;
  for (void* const target : reduction.targets)
    if (target != reduction.sources[0])
      std::memcpy(static_cast<std::byte*>(target) + begin * element, from, (end - begin) * element);
}

}  // namespace

void reduce_ranks(const RankReduction& reduction, DType dtype, ReduceOp op, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  if (reduction.sources.size() == 1) return copy(reduction, size_of(dtype), begin, end);
  switch (dtype) {
    case kBool:  // bytes of 0 or 1, whose or is their maximum
      return reduce_as<std::uint8_t>(reduction, op == ReduceOp::kSum ? ReduceOp::kMax : op, begin, end);
    case kUInt8:
      return reduce_as<std::uint8_t>(reduction, op, begin, end);
    case kInt32:
      return reduce_as<std::int32_t>(reduction, op, begin, end);
    case kInt64:
      return reduce_as<std::int64_t>(reduction, op, begin, end);
    case kFloat16:
      return reduce_as<Half>(reduction, op, begin, end);
    case kBFloat16:
      return reduce_as<BFloat16>(reduction, op, begin, end);
    case kFloat32:
      return reduce_as<float>(reduction, op, begin, end);
    case kFloat64:
      return reduce_as<double>(reduction, op, begin, end);
  }
}

}  // namespace lockstep::host
