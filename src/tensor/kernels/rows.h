// The row pattern: a function object sees one row of each operand at a time, along one dimension of all of them:
// softmax, sorting, running sums, picking by index. Rows are worked on in parallel; a row never is.
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/host/parallel.h"
#include "tensor/kernels/launch.h"
#include "tensor/kernels/visit.h"

namespace lockstep {

template <class T>
struct Row {
  T* data;
  std::int64_t length;
  std::int64_t step;  ///< In elements.

  LOCKSTEP_HD T& operator[](std::int64_t i) const { return data[i * step]; }
};

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
      for (std::int64_t r = begin; r < end; ++r) item(r);
    });
  }

  std::int64_t items() const { return outer.numel; }
  LOCKSTEP_HD void item(std::int64_t r) const { row(offsets_at(outer, r), std::index_sequence_for<In...>()); }

 private:
  template <std::size_t... I>
  LOCKSTEP_HD void row(const std::array<std::int64_t, kOperands>& at, std::index_sequence<I...>) const {
    f(Row<Out>{out + at[0], lengths[0], steps[0]},
      Row<const In>{std::get<I>(in) + at[I + 1], lengths[I + 1], steps[I + 1]}...);
  }
};

/// Calls f(row of out, rows of inputs...) for each row along `dim`. All operands live on one device, have one rank and
/// the dtypes Out and In. Outside `dim` their sizes agree, or only the rows that all of them have are visited; along
/// it they may differ. f may read what it finds in out's row.
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
