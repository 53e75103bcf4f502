// The row pattern: a function object sees one row of each operand at a time, along one dimension of all of them:
// softmax, normalization, running sums, picking by index. On the host rows are worked on in parallel and a row by one
// thread; on a GPU a row has as many threads as it is worth (cuda/rows.h).
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/host/parallel.h"
#include "tensor/kernels/launch.h"
#include "tensor/kernels/row_team.h"

namespace lockstep {

template <class F, class Out, class... In>
struct RowKernel {
  static constexpr int kOperands = 1 + sizeof...(In);
  static constexpr std::int64_t kGrain = 1 << 14;  // elements that are worth a task

  F f;
  Out* out;
  std::tuple<const In*...> in;
  Geometry<kOperands> outer;  // of the rows
  std::array<std::int64_t, kOperands> lengths, steps;

  void operator()(const KernelContext& context) const {
    const std::int64_t longest = std::max<std::int64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
    host::parallel_for(context, outer.numel, kGrain / longest + 1, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) row(offsets_at(outer, r), std::index_sequence_for<In...>());
    });
  }

 private:
  template <std::size_t... I>
  void row(const std::array<std::int64_t, kOperands>& at, std::index_sequence<I...>) const {
    const Row<Out> to{out + at[0], lengths[0], steps[0]};
    if constexpr (kWorksAlone<F, Row<Out>, Row<const In>...>)
      f(to, Row<const In>{std::get<I>(in) + at[I + 1], lengths[I + 1], steps[I + 1]}...);
    else
      f(OneThread(), to, Row<const In>{std::get<I>(in) + at[I + 1], lengths[I + 1], steps[I + 1]}...);
  }
};

/// Calls f(team, row of out, rows of inputs...) for each row along `dim`, or f(row of out, rows of inputs...) where a
/// row is worked through in order; what a team does is said at OneThread. All operands live on one device, have one
/// rank and the dtypes Out and In. Outside `dim` their sizes agree, or only the rows that all of them have are visited;
/// along it they may differ. `out` shares no memory with the inputs; f may read what it finds in out's row.
template <class Out, class... In, class F, class... Inputs>
void map_rows(const char* name, double flops_per_element, const F& f, int dim, const Tensor& out,
              const Inputs&... inputs) {
  constexpr std::size_t kOperands = 1 + sizeof...(In);
  const std::array<const TensorImpl*, kOperands> operands = {out.impl(), inputs.impl()...};
  RowKernel<F, Out, In...> kernel{
      f, reinterpret_cast<Out*>(out.impl()->data()), {reinterpret_cast<const In*>(inputs.impl()->data())...}, {}, {},
      {}};
  std::int64_t most = 0;
  for (std::size_t n = 0; n < kOperands; ++n) {
    Shape sizes = operands[n]->sizes, strides = operands[n]->strides;
    most = std::max(most, operands[n]->numel);
    kernel.lengths[n] = sizes.empty() ? 1 : sizes[dim];
    kernel.steps[n] = sizes.empty() ? 1 : strides[dim];
    if (!sizes.empty()) {
      sizes.erase(dim);
      strides.erase(dim);
    }
    if (n == 0) kernel.outer.sizes = sizes;
    for (int d = 0; d < sizes.rank(); ++d) kernel.outer.sizes[d] = std::min(kernel.outer.sizes[d], sizes[d]);
    kernel.outer.strides[n] = strides;
  }
  kernel.outer.numel = kernel.outer.sizes.elements();
  if (kernel.outer.numel == 0 || out.impl()->numel == 0) return;
  collapse(kernel.outer);
  launch(name, flops_per_element * double(most), out, std::array<const Tensor*, sizeof...(In)>{&inputs...}, kernel);
}

}  // namespace lockstep
