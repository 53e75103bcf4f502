// The row pattern: a function object sees one row of each operand at a time, along one dimension of all of them
// (lockstep/tensor/kernels/row_kernel.h).
#pragma once

#include <lockstep/tensor/kernels/row_kernel.h>

#include "tensor/kernels/launch.h"

namespace lockstep {

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
    if (kernel.lengths[n] == 0) strides = Shape::filled(strides.rank(), 0);  // there may be no memory to step through
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
