// The kernel that processes rows: a function object gets one row of each operand at a time, along one dimension of all
// operands. Softmax, normalization, running sums and picking by index use it. On the host, threads work on different
// rows; on a GPU, each row has a team of threads, whose size depends on the row's length (cuda/rows.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <lockstep/core/vectorized.h>
#include <lockstep/kernels/geometry.h>
#include <lockstep/kernels/row_team.h>
#include <lockstep/runtime/kernel.h>

namespace lockstep {

/// The geometry of the rows of N operands, in elements.
template <int N>
struct RowGeometry {
  Geometry<N> outer;  ///< The rows' positions.
  std::array<std::int64_t, std::size_t(N)> lengths, steps;

  bool lies_densely() const {
    for (std::size_t n = 0; n < std::size_t(N); ++n)
      if (steps[n] != 1 && lengths[n] > 1) return false;
    return true;
  }
};

/// The geometry of the rows along `dim` that all operands have.
template <std::size_t N>
RowGeometry<int(N)> rows_along(int dim, const std::array<const Shape*, N>& sizes,
                               const std::array<const Shape*, N>& strides) {
  RowGeometry<int(N)> rows;
  for (std::size_t n = 0; n < N; ++n) {
    Shape outer = *sizes[n], steps = *strides[n];
    rows.lengths[n] = outer.empty() ? 1 : outer[dim];
    rows.steps[n] = outer.empty() ? 1 : steps[dim];
    if (!outer.empty()) {
      outer.erase(dim);
      steps.erase(dim);
    }
    if (rows.lengths[n] == 0) steps = Shape::filled(steps.rank(), 0);  // an empty operand may have no memory
    if (n == 0) rows.outer.sizes = outer;
    for (int d = 0; d < outer.rank(); ++d) rows.outer.sizes[d] = std::min(rows.outer.sizes[d], outer[d]);
    rows.outer.strides[n] = steps;
  }
  rows.outer.numel = rows.outer.sizes.elements();
  collapse(rows.outer);
  return rows;
}

template <class F, class Out, class... In>
struct RowKernel : RowGeometry<1 + sizeof...(In)> {
  static constexpr int kOperands = 1 + sizeof...(In);
  static constexpr std::int64_t kGrain = 1 << 14;  // up to this many elements are not divided between tasks

  using RowGeometry<kOperands>::outer, RowGeometry<kOperands>::lengths, RowGeometry<kOperands>::steps;

  F f;
  Out* out;
  std::array<const void*, sizeof...(In)> in;  // pointers to elements of In

  void operator()(const KernelContext& context) const {
    host::parallel_for(context, outer.numel, grain_of(*this),
                       [this](std::int64_t begin, std::int64_t end) { run(begin, end); });
  }

  /// Computes rows [begin, end) on the calling thread.
  void run(std::int64_t begin, std::int64_t end) const {
    if constexpr (kVectorizes)
      if (this->lies_densely())  // with a constant step, loops become vector instructions
        return vectorized([&] { rows(begin, end, [](std::size_t) { return std::int64_t(1); }); },
                          [&] { rows_of_any_step(begin, end); });
    rows_of_any_step(begin, end);
  }

  /// The number of rows up to which rows are not divided between tasks.
  static std::int64_t grain_of(const RowGeometry<kOperands>& rows) {
    const auto& lengths = rows.lengths;
    return kGrain / std::max<std::int64_t>(1, *std::max_element(lengths.begin(), lengths.end())) + 1;
  }

 private:
  // False if an operand is Half: its elements are converted one at a time, so loops do not become vector instructions.
  static constexpr bool kVectorizes = !std::is_same_v<Out, Half> && !(std::is_same_v<In, Half> || ...);

  template <class Step>
  LOCKSTEP_INLINE void rows(std::int64_t begin, std::int64_t end, const Step& step) const {
    for (std::int64_t r = begin; r < end; ++r) row(offsets_at(outer, r), step, std::index_sequence_for<In...>());
  }
  [[gnu::noinline]] void rows_of_any_step(std::int64_t begin, std::int64_t end) const {
    rows(begin, end, [this](std::size_t n) { return steps[n]; });
  }

  template <class Step, std::size_t... I>
  LOCKSTEP_INLINE void row(const std::array<std::int64_t, std::size_t(kOperands)>& at, const Step& step,
                           std::index_sequence<I...>) const {
    const RowOf<Out> to{out + at[0], lengths[0], step(0)};
    if constexpr (kTakesNoTeam<F, RowOf<Out>, RowOf<const In>...>)
      f(to, RowOf<const In>{static_cast<const In*>(in[I]) + at[I + 1], lengths[I + 1], step(I + 1)}...);
    else
      f(OneThread(), to, RowOf<const In>{static_cast<const In*>(in[I]) + at[I + 1], lengths[I + 1], step(I + 1)}...);
  }
};

}  // namespace lockstep
