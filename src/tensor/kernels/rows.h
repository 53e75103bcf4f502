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
  const TensorImpl& of_out = *out.impl();
  const auto rows = rows_along<1 + sizeof...(In)>(dim, {&of_out.sizes, &inputs.impl()->sizes...},
                                                  {&of_out.strides, &inputs.impl()->strides...});
  if (rows.outer.numel == 0 || of_out.numel == 0) return;
  const std::int64_t most = std::max({of_out.numel, inputs.impl()->numel...});
  const RowKernel<F, Out, In...> kernel{rows, f, reinterpret_cast<Out*>(of_out.data()), {inputs.impl()->data()...}};
  launch(name, flops_per_element * double(most), out, std::array<const Tensor*, sizeof...(In)>{&inputs...}, kernel);
}

}  // namespace lockstep
