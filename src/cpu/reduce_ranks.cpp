#include "cpu/reduce_ranks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <lockstep/core/float16_rows.h>
#include <lockstep/core/vectorized.h>

#include "runtime/collectives/reduce_op.h"

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define LOCKSTEP_WIDE_STORES
#include <emmintrin.h>
#endif

namespace lockstep::host {
namespace {

// A block and its accumulator stay in the first-level cache while the ranks are added.
constexpr std::size_t kBlock = 2048;

template <class T>
T* at(void* data, std::size_t begin) {
  return static_cast<T*>(data) + begin;
}
template <class T>
const T* at(const void* data, std::size_t begin) {
  return static_cast<const T*>(data) + begin;
}

// Writes with non-temporal stores, because an ordinary store first reads the cache line. Used for targets that are too
// large for the caches and are not also sources. Call finish_writes() before other threads may read the data.
void write_non_temporal(void* to, const void* from, std::size_t bytes) {
#ifdef LOCKSTEP_WIDE_STORES
  constexpr std::size_t kWidth = sizeof(__m128i);
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const std::size_t head = std::min(bytes, (0 - reinterpret_cast<std::uintptr_t>(target)) % kWidth);
  std::memcpy(target, source, head);
  std::size_t at = head;
  for (; at + kWidth <= bytes; at += kWidth)
    _mm_stream_si128(reinterpret_cast<__m128i*>(target + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at)));
  std::memcpy(target + at, source + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

void finish_writes() {
#ifdef LOCKSTEP_WIDE_STORES
  _mm_sfence();
#endif
}

constexpr std::size_t kLargeBytes = 4 << 20;

bool uses_non_temporal(const RankReduction& reduction, const void* target, std::size_t element) {
  return reduction.count * element >= kLargeBytes &&
         std::ranges::find(reduction.sources, target) == reduction.sources.end();
}

void write(const RankReduction& reduction, const void* from, std::size_t element, std::size_t begin,
           std::size_t count) {
  for (void* const target : reduction.targets) {
    std::byte* const to = static_cast<std::byte*>(target) + begin * element;
    if (to == from) continue;
    uses_non_temporal(reduction, target, element) ? write_non_temporal(to, from, count * element)
                                                  : void(std::memcpy(to, from, count * element));
  }
}

// Returns the elements in the accumulator's type: in place, or, if T is narrower, converted into `wide`.
template <class A, class T>
const A* as_accumulators(const T* from, A* wide, std::size_t count) {
  if constexpr (sizeof(A) == sizeof(T)) {
    return reinterpret_cast<const A*>(from);  // A is T, or the unsigned integer type of T's size
  } else {
    widen(from, 1, std::int64_t(count), wide);
    return wide;
  }
}

template <class T, class Op>
void reduce_block(const RankReduction& reduction, double divisor, std::size_t begin, std::size_t count) {
  using A = rank_reduction::Accumulator<T, Op>;
  A sums[kBlock], wide_first[kBlock], wide[kBlock];
  // The last addition writes directly to the first target, which often is one of the sources and so in the cache.
  A* result = sums;
  if constexpr (sizeof(A) == sizeof(T))
    if (!uses_non_temporal(reduction, reduction.targets[0], sizeof(T)))
      result = reinterpret_cast<A*>(at<T>(reduction.targets[0], begin));
  const A* sum = as_accumulators(at<T>(reduction.sources[0], begin), wide_first, count);
  const std::size_t last = reduction.sources.size() - 1;
  for (std::size_t rank = 1; rank <= last; ++rank) {
    const A* const next = as_accumulators(at<T>(reduction.sources[rank], begin), wide, count);
    A* const to = rank == last ? result : sums;
    // Two operands are identical or do not overlap, so iterations are independent.
    LOCKSTEP_IVDEP
    for (std::size_t i = 0; i < count; ++i) to[i] = Op::combine(sum[i], next[i]);
    sum = to;
  }
  if constexpr (std::is_floating_point_v<A>)
    if (divisor != 1)
      for (std::size_t i = 0; i < count; ++i) result[i] /= A(divisor);

  if constexpr (sizeof(A) == sizeof(T)) {
    write(reduction, result, sizeof(T), begin, count);
  } else {
    T narrowed[kBlock];
    narrow(result, std::int64_t(count), narrowed, 1);
    write(reduction, narrowed, sizeof(T), begin, count);
  }
}

template <class T, class Op>
void reduce_all(const RankReduction& reduction, double divisor, std::size_t begin, std::size_t end) {
  for (; begin < end; begin += kBlock) reduce_block<T, Op>(reduction, divisor, begin, std::min(kBlock, end - begin));
}

void copy(const RankReduction& reduction, std::size_t element, std::size_t begin, std::size_t end) {
  const auto* const from = static_cast<const std::byte*>(reduction.sources[0]);
  for (; begin < end; begin += kBlock)
    write(reduction, from + begin * element, element, begin, std::min(kBlock, end - begin));
}

void reduce_elements(const RankReduction& reduction, DType dtype, ReduceOp op, std::size_t begin, std::size_t end) {
  if (reduction.sources.size() == 1) return copy(reduction, size_of(dtype), begin, end);
  const double divisor = op == ReduceOp::mean ? double(reduction.sources.size()) : 1;
  rank_reduction::visit(dtype, op, [&]<class T, class Op>() { reduce_all<T, Op>(reduction, divisor, begin, end); });
}

}  // namespace

void reduce_ranks(const RankReduction& reduction, DType dtype, ReduceOp op, std::size_t begin, std::size_t end) {
  vectorized([&] { reduce_elements(reduction, dtype, op, begin, end); });
  finish_writes();
}

}  // namespace lockstep::host
