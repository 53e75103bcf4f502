// Copies: to another device, another dtype, dense memory, or a given tensor.
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/tensor.h>

#include "autograd/in_place.h"
#include "core/text.h"
#include "ops/images.h"
#include "ops/record.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

Tensor recorded_copy(const char* node, const Tensor& x, Tensor out) {
  const DType dtype = out.dtype();
  if (records(x) && is_floating(dtype))
    record(node, out, {&x},
           [home = x.device(), was = x.dtype()](const Tensor& g) { return Gradients{g.to(home, was)}; });
  return out;
}

Tensor copy_to(const char* node, const Tensor& x, DeviceState& device, DType dtype) {
  return recorded_copy(node, x, copied(x, device, dtype));
}

// Converts x on its own device. Images keep their memory layout (row-major or channels-last).
Tensor converted(const Tensor& x, DType dtype) {
  Tensor out = make_like(x, dtype);
  copy_values(out, x);
  return recorded_copy("To", x, out);
}

}  // namespace

Tensor Tensor::to(Device device, DType dtype) const {
  const TensorImpl& x = impl_of("to", *this);
  DeviceState& target = device_state(device);
  if (x.storage->device == &target && x.dtype == dtype) return *this;
  return x.storage->device == &target ? converted(*this, dtype) : copy_to("To", *this, target, dtype);
}

Tensor Tensor::to(Device device) const { return to(device, impl_of("to", *this).dtype); }

Tensor Tensor::to(DType dtype) const {
  const TensorImpl& x = impl_of("to", *this);
  return x.dtype == dtype ? *this : converted(*this, dtype);
}

Tensor Tensor::contiguous() const {
  const TensorImpl& x = impl_of("contiguous", *this);
  return x.contiguous ? *this : copy_to("Clone", *this, *x.storage->device, x.dtype);
}

Tensor Tensor::clone() const {
  const TensorImpl& x = impl_of("clone", *this);
  return copy_to("Clone", *this, *x.storage->device, x.dtype);
}

Tensor Tensor::pin_memory() const {
  const TensorImpl& x = impl_of("pin_memory", *this);
  if (x.storage->pinned) return *this;
  if (!x.storage->device->device.is_cpu())
    throw InvalidArgument(text("[pin_memory] expected a tensor on the CPU, got one on ", x.storage->device->device));
  Tensor out = make_pinned("pin_memory", x.sizes, x.dtype);
  copy_values(out, *this);
  return recorded_copy("PinMemory", *this, out);
}

Tensor& Tensor::copy_(const Tensor& source) {
  autograd::check_in_place("copy_", *this, source);
  copy_values(*this, source);
  bump_version(*this);
  if (records(*this, source) && is_floating(dtype()))
    autograd::record_in_place("Copy", *this, {&source},
                              [home = source.device(), was = source.dtype(), sizes = source.sizes(),
                               needed = needs_grad(source)](const Tensor& g) {
                                return Gradients{Tensor(), needed ? sum_to(g, sizes).to(home, was) : Tensor()};
                              });
  return *this;
}

}  // namespace lockstep
