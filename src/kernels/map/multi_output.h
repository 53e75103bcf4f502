// Elementwise operations with several outputs: calls f(a[i], b[i], ...), where f takes references and writes some of
// them.
#pragma once

#include <lockstep/kernels/multi_output_kernel.h>

#include "kernels/launch.h"

namespace lockstep {

/// Calls f for each element of the operands. T: the operands' element types, const where f only reads; f takes
/// references to their compute types (or values, for operands that it only reads), and may read an element before it
/// writes it. All operands broadcast to the first operand's shape. A written operand shares no memory with any other
/// operand. All operands are on one device. `f` must be copyable. Does not bump versions.
template <class... T, class F, class... Operands>
void multi_output(const char* name, double flops_per_element, const F& f, const Operands&... operands) {
  static_assert(sizeof...(T) == sizeof...(Operands));
  constexpr std::array<bool, sizeof...(T)> kReads = {std::is_const_v<T>...};
  const std::array<const Tensor*, sizeof...(T)> all = {&operands...};
  const TensorImpl& first = *all[0]->impl();
  if (first.numel == 0) return;
  const ElementwiseKernel<F, sizeof...(T)> kernel{
      {{operands.impl()->data()...}, make_geometry(first.sizes, *operands.impl()...)},
      f,
      &multi_output_forms<F, T...>()};
  std::array<const Tensor*, sizeof...(T)> written, read;
  std::size_t writes = 0, reads = 0;
  for (std::size_t n = 0; n < all.size(); ++n) (kReads[n] ? read[reads++] : written[writes++]) = all[n];
  launch(name, flops_per_element * double(first.numel), std::span(written).first(writes), std::span(read).first(reads),
         kernel);
}

}  // namespace lockstep
