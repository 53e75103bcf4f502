// The elementwise pattern with several outputs: f(a[i], b[i], ...), where f takes references and writes some of them.
#pragma once

#include <lockstep/tensor/kernels/multi_output_kernel.h>

#include "tensor/kernels/launch.h"

namespace lockstep {

/// Calls f for each element of the operands. T: the operands' element types, const where f only reads; f takes
/// references to their compute types (or values, where it reads), and may read what it is about to write. The first
/// operand gives the shape, which the others broadcast to. What is written shares no memory with any other operand.
/// All operands live on one device. `f` must be copyable. Counts no change.
template <class... T, class F, class... Operands>
void multi_output(const char* name, double flops_per_element, const F& f, const Operands&... operands) {
  static_assert(sizeof...(T) == sizeof...(Operands));
  constexpr std::array<bool, sizeof...(T)> kReads = {std::is_const_v<T>...};
  const std::array<const Tensor*, sizeof...(T)> all = {&operands...};
  const TensorImpl& first = *all[0]->impl();
  if (first.numel == 0) return;
  const MultiOutputKernel<F, T...> kernel{
      f, {reinterpret_cast<T*>(operands.impl()->data())...}, make_geometry(first.sizes, *operands.impl()...)};
  DeviceState& device = *first.storage->device;
  const double flops = flops_per_element * double(first.numel);
  if (device.device.is_cpu()) return enqueue(device, {}, {name, flops, {}}, kernel);  // at once: nothing to order
  const StreamHandle stream = current_stream_handle(device);
  std::array<Access, sizeof...(T)> accesses;
  for (std::size_t n = 0; n < all.size(); ++n) {
    accesses[n] = {region_of(*all[n]->impl()), kReads[n] ? AccessKind::read : AccessKind::write};
    use_on(stream, *all[n]);
  }
  enqueue(device, stream, {name, flops, accesses}, kernel);
}

}  // namespace lockstep
