// Teams: the threads that share a row on a GPU. A team is a part of a warp, a warp, or a block. The order of
// combination depends on the shape and the layout alone; there are no atomics.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include <lockstep/kernels/cuda/grid.h>
#include <lockstep/kernels/cuda/read_ahead.h>
#include <lockstep/kernels/cuda/walk.h>

namespace lockstep::gpu {

/// How a block's threads are divided into teams. Both numbers are powers of two. Either `beside` is 1 and a team fits
/// in a warp, or size * beside is the number of threads of a block.
struct TeamShape {
  int size = 1;  ///< The number of threads of a team.
  /// The number of teams that are interleaved. If it is 1, the threads of a team are consecutive. Otherwise the first
  /// threads of all these teams come first, then their second threads, and so on.
  int beside = 1;

  static constexpr std::int64_t kLongRow = 1024;  // elements: longer rows get larger teams
  static constexpr int kNeighbours = 8;           // floats of one memory transaction

  /// The shape for rows of `length` elements in which neighbouring threads take neighbouring elements of a row.
  static TeamShape along(std::int64_t length) {
    if (length > kLongRow) return {kThreads, 1};
    return {int(std::bit_ceil(std::uint64_t(std::min<std::int64_t>(length, kWarp)))), 1};
  }
  /// The shape for rows of `length` elements in which neighbouring threads take neighbouring rows. Use it if the
  /// elements of a row are farther apart in memory than the rows are.
  static TeamShape across(std::int64_t length) {
    if (length < kWarp) return {1, 1};
    const int beside = length > kLongRow ? kNeighbours : kWarp;
    return {kThreads / beside, beside};
  }

  LOCKSTEP_HD int rows() const { return kThreads / size; }  ///< Rows that a block takes at once.
};

/// One thread of a team. It has the members of OneThread (kernels/row_team.h).
class RowTeam {
 public:
  static constexpr bool kSerial = false;
  using Index = std::int64_t;

  /// `blocks` blocks (a power of two) share a row, and this team is in block number `block` of them. With more than one
  /// block, reduce() must not be called. Idle threads take part in every barrier, and do nothing else.
  __device__ RowTeam(TeamShape shape, bool idle, unsigned block, unsigned blocks)
      : shape_(shape), step_(std::int64_t(shape.size) * blocks) {
    const int member = int(threadIdx.x) / shape.beside % shape.size;
    begin_ = idle ? kNowhere : std::int64_t(block) * shape.size + member;
  }

  template <class A, class Step, class Combine>
  __device__ A reduce(std::int64_t length, A value, const Step& step, const Combine& combine) const {
    each(length, [&](std::int64_t i) { value = step(value, i); });
    const int lane = int(threadIdx.x) % kWarp, row = lane % shape_.beside;
    const int threads = shape_.size * shape_.beside;
    const int span = threads < kWarp ? threads : kWarp;  // lanes of one team, or of the interleaved teams
    for (int half = span / 2; half >= shape_.beside; half /= 2) value = combine(value, from_lane(value, lane + half));
    if (span == threads) return from_lane(value, lane / span * span);
    A* const of_warps = shared<A>();
    __syncthreads();  // waits until an earlier use of the shared memory has ended
    if (lane < shape_.beside) of_warps[threadIdx.x] = value;
    __syncthreads();
    value = of_warps[row];
    for (int warp = 1; warp < kWarps; ++warp) value = combine(value, of_warps[warp * kWarp + row]);
    return value;
  }

  /// reduce() with value = step(value, read(i)). Loads several elements before it uses the first one. Use it if `step`
  /// branches: a compiler does not move loads across branches.
  template <class A, class Read, class Step, class Combine>
  __device__ A reduce_read(std::int64_t length, A value, const Read& read, const Step& step,
                           const Combine& combine) const {
    read_ahead(begin_, length, step_, read, [&](const auto& element) { value = step(value, element); });
    return reduce(
        0, value, [](const A& same, std::int64_t) { return same; }, combine);
  }

  template <class Visit>
  __device__ void each(std::int64_t length, const Visit& visit) const {
    std::int64_t i = begin_;
    for (; length - i > (kAtOnce - 1) * step_; i += kAtOnce * step_)
      for (int n = 0; n < kAtOnce; ++n) visit(i + n * step_);
    for (; i < length; i += step_) visit(i);
  }
  template <class AnyRow>
  __device__ const AnyRow& kept(const AnyRow& row) const {
    return row;
  }
  template <class AnyRow, class Value>
  __device__ void fill(const AnyRow& row, const Value& value) const {
    std::int64_t i = begin_;
    for (; row.length - i > (kAtOnce - 1) * step_; i += kAtOnce * step_) {
      typename AnyRow::Element elements[kAtOnce];  // so that all are computed before the first is stored
      for (int n = 0; n < kAtOnce; ++n) elements[n] = value(i + n * step_);
      for (int n = 0; n < kAtOnce; ++n) row[i + n * step_] = elements[n];
    }
    for (; i < row.length; i += step_) row[i] = value(i);
  }
  __device__ bool visits(std::int64_t i) const { return (i & (step_ - 1)) == begin_; }
  __device__ bool first() const { return begin_ == 0; }

 private:
  static constexpr int kAtOnce = 4;                                // elements that a thread loads before it uses one
  static constexpr std::int64_t kNowhere = std::int64_t(1) << 62;  // beyond the end of every row

  template <class A>
  __device__ static A* shared() {
    __shared__ A values[kThreads];
    return values;
  }

  /// The value of another lane of the warp. Beyond the warp's end, the value of an unspecified lane.
  template <class A>
  __device__ static A from_lane(const A& value, int lane) {
    struct Words {
      std::uint32_t words[sizeof(A) / sizeof(std::uint32_t)];
    };
    static_assert(sizeof(Words) == sizeof(A));
    Words all = std::bit_cast<Words>(value);
    for (std::uint32_t& word : all.words) word = __shfl_sync(0xffffffffu, word, lane);
    return std::bit_cast<A>(all);
  }

  TeamShape shape_;
  std::int64_t begin_, step_;  // step_: a power of two
};

/// The geometry of all operands' rows, without their addresses.
template <int N>
struct RowsOf {
  std::int64_t rows;
  Walk<N> outer;
  std::array<std::int64_t, N> lengths, steps;
};

}  // namespace lockstep::gpu
