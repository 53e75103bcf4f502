#include <lockstep/nn/parameter.h>

#include <algorithm>
#include <utility>

#include <lockstep/autograd/grad_mode.h>

#include "autograd/meta.h"
#include "core/context.h"
#include "core/text.h"
#include "tensor/copy.h"

namespace lockstep::nn {
namespace {

void require_gradient(Tensor& tensor) {
  tensor.requires_grad_();
  autograd::make_meta(tensor).is_parameter = true;
}

void check_trained(const char* op, const Tensor& value) {
  if (!is_floating(value.dtype()))
    throw DTypeError(text("[", op, "] expected a floating dtype for a parameter that is trained, got ", value.dtype(),
                          " of shape ", value.sizes(),
                          ": make it of floating numbers (2.0, not 2), or say .requires_grad = false"));
}

Tensor copy_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const CopyTarget* const target = context().copy_target;
  if (target && target->as == CopyAs::replica) return tensor.to(target->device);
  DeviceState& device = device_state(target ? target->device : tensor.device());
  Tensor copy = target && target->as == CopyAs::without_memory && tensor.requires_grad()
                    ? make_without_memory(device, tensor.sizes(), tensor.dtype())
                    : copied(tensor, device, tensor.dtype());
  if (tensor.requires_grad()) require_gradient(copy);
  return copy;
}

}  // namespace

CopyTo::CopyTo(Device device, CopyAs as)
    : target_{device, as}, outer_(std::exchange(context().copy_target, &target_)) {}
CopyTo::~CopyTo() { context().copy_target = outer_; }

State::State(const Tensor& value, bool requires_grad) : Tensor(value.detach()) {
  impl()->storage->checkpoint = 0;  // module state, even if a checkpointed function made it
  if (!requires_grad) return;
  check_trained("Parameter", value);
  require_gradient(*this);
}

State::State(const State& other) : Tensor(copy_of(other)) {}

void Buffer::assign(const Tensor& value) {
  if (value.defined() && value.requires_grad())
    throw AutogradError(
        "[Buffer] expected a tensor that requires no gradient, since a buffer has no graph: assign its detach()");
  const Buffer other = value.defined() ? Buffer(value, BufferOptions{}) : Buffer();
  State::operator=(static_cast<const State&>(other));
}

State& State::operator=(const State& other) & {
  if (this == &other) return *this;
  if (defined() && other.defined() && sizes() == other.sizes() && dtype() == other.dtype()) {
    const NoGrad guard;
    copy_(other);
  } else {
    Tensor::operator=(copy_of(other));
  }
  return *this;
}

void State::reset(const Tensor& value) {
  if (!defined()) {
    Tensor::operator=(value.detach());
    return;
  }
  if (!is_leaf())
    throw AutogradError(text("[reset] cannot replace a parameter (shape ", sizes(),
                             ") of a replica made by replicate(): change the module and replicate it again"));
  if (requires_grad()) check_trained("reset", value);
  autograd::check_idle("reset", *this);
  const Tensor source = value.detach();
  TensorImpl& own = *impl();
  TensorImpl& other = *source.impl();
  const std::uint64_t version = own.storage->version, other_version = other.storage->version;
  std::swap(own.storage, other.storage);
  own.storage->version = std::max(version, other_version) + 1;  // makes backward throw for tensors saved from it
  own.dtype = other.dtype;
  own.contiguous = other.contiguous;
  own.numel = other.numel;
  own.offset = other.offset;
  own.sizes = other.sizes;
  own.strides = other.strides;
  if (own.autograd) {
    auto& meta = static_cast<autograd::Meta&>(*own.autograd);
    autograd::clear_grad("reset", *this);
    meta.accumulator.reset();  // the accumulator adds on the device that the parameter left
  }
}

Parameter Parameter::lazy(const Shape& sizes) {
  Parameter parameter;
  parameter.lazy_sizes_ = sizes;
  return parameter;
}

void Parameter::reset(const Tensor& value) {
  const bool fresh = !defined();
  if (fresh) check_trained("reset", value);
  State::reset(value);
  if (fresh) require_gradient(*this);
}

void State::place(Device device) {
  if (!defined() || this->device() == device) return;
  const NoGrad guard;
  const Tensor moved_grad = grad().defined() ? grad().to(device) : Tensor();
  reset(to(device));
  if (moved_grad.defined()) set_grad(moved_grad);
}

void State::convert(DType dtype) {
  if (!defined() || this->dtype() == dtype) return;
  const NoGrad guard;
  const Tensor converted_grad = grad().defined() ? grad().to(dtype) : Tensor();
  reset(to(dtype));
  if (converted_grad.defined()) set_grad(converted_grad);
}

}  // namespace lockstep::nn
