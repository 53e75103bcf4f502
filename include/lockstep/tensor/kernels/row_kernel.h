// The kernel of the row pattern: a function object sees one row of each operand at a time, along one dimension of all
// of them: softmax, normalization, running sums, picking by index. On the host rows are worked on in parallel and a row
// by one thread; on a GPU a row has as many threads as it is worth (cuda/rows.h).
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>

#include <lockstep/core/vectorized.h>
#include <lockstep/runtime/kernel.h>
#include <lockstep/tensor/kernels/geometry.h>
#include <lockstep/tensor/kernels/row_team.h>

namespace lockstep {

template <class F, class Out, class... In>
struct RowKernel {
  static constexpr int kOperands = 1 + sizeof...(In);
  static constexpr std::int64_t kGrain = 1 << 14;  // elements that are worth a task

  F f;
  Out* out;
  std::tuple<const In*...> in;
  Geometry<kOperands> outer;  // of the rows
  std::array<std::int64_t, std::size_t(kOperands)> lengths, steps;

  void operator()(const KernelContext& context) const {
    const std::int64_t longest = std::max<std::int64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
    const std::int64_t grain = kGrain / longest + 1;
    if constexpr (kVectorizes)
      if (lies_densely())  // a constant step: the loops become vector instructions
        return host::parallel_for(context, outer.numel, grain, [this](std::int64_t begin, std::int64_t end) {
          vectorized([&] { rows(begin, end, [](std::size_t) { return std::int64_t(1); }); },
                     [&] { rows_of_any_step(begin, end); });
        });
    host::parallel_for(context, outer.numel, grain,
                       [this](std::int64_t begin, std::int64_t end) { rows_of_any_step(begin, end); });
  }

 private:
  // Not for binary16, whose numbers are converted one at a time.
  static constexpr bool kVectorizes = !std::is_same_v<Out, Half> && !(std::is_same_v<In, Half> || ...);

  bool lies_densely() const {
    for (std::size_t n = 0; n < kOperands; ++n)
      if (steps[n] != 1 && lengths[n] > 1) return false;
    return true;
  }

  template <class Step>
  void rows(std::int64_t begin, std::int64_t end, const Step& step) const {
    for (std::int64_t r = begin; r < end; ++r) row(offsets_at(outer, r), step, std::index_sequence_for<In...>());
  }
  [[gnu::noinline]] void rows_of_any_step(std::int64_t begin, std::int64_t end) const {
    rows(begin, end, [this](std::size_t n) { return steps[n]; });
  }

  template <class Step, std::size_t... I>
  void row(const std::array<std::int64_t, std::size_t(kOperands)>& at, const Step& step,
           std::index_sequence<I...>) const {
    const Row<Out> to{out + at[0], lengths[0], step(0)};
    if constexpr (kWorksAlone<F, Row<Out>, Row<const In>...>)
      f(to, Row<const In>{std::get<I>(in) + at[I + 1], lengths[I + 1], step(I + 1)}...);
    else
      f(OneThread(), to, Row<const In>{std::get<I>(in) + at[I + 1], lengths[I + 1], step(I + 1)}...);
  }
};

}  // namespace lockstep
