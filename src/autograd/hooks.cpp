#include "autograd/hooks.h"

#include "core/expect.h"
#include "tensor/tensor_impl.h"

namespace lockstep::autograd {

Tensor apply_hook(const char* op, const std::function<Tensor(const Tensor&)>& hook, const Tensor& gradient) {
  Tensor changed = hook(gradient);
  if (!changed.defined()) return gradient;
  check_same_device(op, gradient, changed);
  expect<ShapeError>(changed.sizes() == gradient.sizes(), op, "a hook to keep the shape ", gradient.sizes(), ", got ",
                     changed.sizes());
  expect<DTypeError>(changed.dtype() == gradient.dtype(), op, "a hook to keep the dtype ", gradient.dtype(), ", got ",
                     changed.dtype());
  return changed;
}

}  // namespace lockstep::autograd
