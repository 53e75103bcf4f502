#include <lockstep/extend/operand.h>

#include <algorithm>
#include <vector>

#include "core/text.h"
#include "kernels/launch.h"
#include "ops/images.h"

namespace lockstep::extend {

Operand operand_of(const char* op, const Tensor& tensor) {
  const TensorImpl& impl = impl_of(op, tensor);
  return {impl.data(), impl.sizes, impl.strides, impl.numel, impl.contiguous};
}

DType check_operands(const char* op, std::span<const Tensor* const> tensors) {
  const Tensor& first = *tensors.front();
  for (const Tensor* each : tensors) check_same_device(op, first, *each);
  for (const Tensor* each : tensors)
    if (!is_floating(each->dtype()))
      throw DTypeError(text("[", op, "] expected a floating dtype, got ", each->dtype()));
  for (const Tensor* each : tensors)
    if (each->dtype() != first.dtype())
      throw DTypeError(text("[", op, "] expected tensors of one dtype, got ", first.dtype(), " and ", each->dtype()));
  return first.dtype();
}

void promote_all(const char* op, std::span<Tensor> tensors) {
  for (const Tensor& each : tensors) {
    check_same_device(op, tensors.front(), each);
    if (!is_floating(each.dtype())) throw DTypeError(text("[", op, "] expected a floating dtype, got ", each.dtype()));
  }
  const auto has_dims = [](const Tensor& each) { return each.dim() > 0; };
  const auto first = std::ranges::find_if(tensors, has_dims);
  DType dtype = (first == tensors.end() ? tensors.front() : *first).dtype();
  for (const Tensor& each : tensors)  // like result_type(), skips 0-dim tensors unless all are 0-dim
    if (first == tensors.end() || has_dims(each)) dtype = promote(dtype, each.dtype());
  for (Tensor& each : tensors) each = each.to(dtype);
}

Tensor make_result(const char* op, std::span<const Tensor* const> tensors) {
  const Tensor& first = *tensors.front();
  Shape sizes = first.sizes();
  for (const Tensor* each : tensors.subspan(1)) sizes = broadcast(op, sizes, each->sizes());
  for (const Tensor* each : tensors)
    if (!each->is_contiguous() && each->sizes() == sizes) return make_like(*each);
  return make_tensor(*first.impl()->storage->device, sizes, first.dtype());
}

void enqueue(const Launch& launch, KernelRef kernel) {
  DeviceState& device = *launch.written.front()->impl()->storage->device;
  check_forms(launch.name, device, launch.has_device_form);
  for (const Tensor* each : launch.written) wait_for_copies_from(*each->impl());
  launch_kernel(launch.name, launch.flops, launch.written, launch.read, kernel);
}

}  // namespace lockstep::extend
