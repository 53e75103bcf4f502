// The elementwise pattern: out[i] = f(in0[i], in1[i], ...), inputs broadcast to out's shape.
#pragma once

#include <lockstep/tensor/kernels/map_kernel.h>

#include "tensor/kernels/launch.h"

namespace lockstep {

/// Computes `out` elementwise. The operands live on one device and have the dtypes Out and In; f is a copyable
/// function object whose arguments have the compute types of In.
template <class Out, class... In, class F, class... Inputs>
void map(const char* name, double flops_per_element, const F& f, const Tensor& out, const Inputs&... inputs) {
  const TensorImpl& to = *out.impl();
  if (to.numel == 0) return;
  MapKernel<F, Out, In...> kernel{f,
                                  reinterpret_cast<Out*>(to.data()),
                                  {reinterpret_cast<const In*>(inputs.impl()->data())...},
                                  make_geometry(to.sizes, to, *inputs.impl()...)};
  if (!kernel.geometry.dense) lengthen_rows(kernel.geometry);
  launch(name, flops_per_element * double(to.numel), out, std::array<const Tensor*, sizeof...(In)>{&inputs...}, kernel);
}

}  // namespace lockstep
