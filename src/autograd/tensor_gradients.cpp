// Tensor's members for gradients, and hooks.
#include <lockstep/autograd/autograd.h>

#include <utility>

#include "autograd/deferred_destruction.h"
#include "autograd/meta.h"
#include "autograd/views.h"
#include "core/expect.h"
#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

bool Tensor::requires_grad() const {
  impl_of("requires_grad", *this);
  return autograd::needs_grad(*this);
}

Tensor& Tensor::requires_grad_(bool requires_grad) {
  const TensorImpl& impl = impl_of("requires_grad_", *this);
  expect<AutogradError>(!requires_grad || is_floating(impl.dtype), "requires_grad_", "a floating dtype, got ",
                        impl.dtype);
  if (!is_leaf()) {
    if (requires_grad) return *this;
    throw AutogradError("[requires_grad_] expected a leaf, got the result of an operation: use detach()");
  }
  if (requires_grad) autograd::stop_following_base(*this);
  if (requires_grad || impl.autograd) autograd::make_meta(*this).leaf_requires_grad = requires_grad;
  return *this;
}

bool Tensor::is_leaf() const {
  impl_of("is_leaf", *this);
  const autograd::Meta* meta = autograd::meta_of(*this);
  return !meta || !meta->grad_fn;
}

Tensor Tensor::grad() const {
  impl_of("grad", *this);
  autograd::Meta* const meta = autograd::meta_of(*this);
  if (!meta) return {};
  if (const autograd::Replica* const replica = autograd::replica_of(*this)) replica->parameter->complete_gradient();
  return meta->kept_grad();
}

void Tensor::set_grad(const Tensor& grad) {
  const TensorImpl& impl = impl_of("set_grad", *this);
  if (grad.defined()) {
    check_same_device("set_grad", *this, grad);
    expect(!grad.is_same(*this), "set_grad", "another tensor as the gradient, got the tensor itself");
    expect<ShapeError>(grad.sizes() == impl.sizes, "set_grad", "a gradient of shape ", impl.sizes, ", got ",
                       grad.sizes());
    expect<DTypeError>(grad.dtype() == impl.dtype, "set_grad", "a gradient of ", impl.dtype, ", got ", grad.dtype());
  }
  autograd::check_idle("set_grad", *this);
  const Tensor given = grad;  // a copy: `grad` may be the gradient that is replaced
  if (const autograd::Replica* const replica = autograd::replica_of(*this))
    replica->parameter->set_gradient(*replica, given);
  else
    autograd::make_meta(*this).kept_grad() = given;
}

std::string_view Tensor::grad_fn() const {
  const TensorImpl& impl = impl_of("grad_fn", *this);
  if (autograd::has_stale_grad_fn(impl)) autograd::regenerate_grad_fn(*this);
  return impl.autograd ? impl.autograd->grad_fn_name() : std::string_view();
}

Tensor Tensor::detach() const {
  const TensorImpl& impl = impl_of("detach", *this);
  return make_view(*this, impl.sizes, impl.strides, impl.offset);
}

Tensor& Tensor::detach_() {
  if (is_leaf()) return requires_grad_(false);
  if (impl()->follows_base)
    throw AutogradError(text("[detach_] cannot detach a view of shape ", sizes(),
                             " in place: its base would still follow changes of it. Use detach()"));
  autograd::stop_following_base(*this);
  autograd::Meta& meta = *autograd::meta_of(*this);
  autograd::DeferredDestruction::destroy([&](autograd::DeferredDestruction& all) { all.add(std::move(meta.grad_fn)); });
  meta.retained.reset();
  meta.output = 0;
  meta.leaf_requires_grad = false;
  return *this;
}

void Tensor::retain_grad() {
  expect<AutogradError>(requires_grad(), "retain_grad",
                        "a tensor that requires a gradient, got one that does not: call requires_grad_() first");
  autograd::refuse_inner("retain_grad", *this);
  autograd::Meta& meta = *autograd::meta_of(*this);
  if (meta.grad_fn && !meta.retained) autograd::retain_gradient(meta);
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  lockstep::backward(std::span(this, 1), std::span(&gradient, 1), {retain_graph, create_graph});
}

void Tensor::backward(const Tensor& gradient, const BackwardOptions& options) const {
  lockstep::backward(std::span(this, 1), std::span(&gradient, 1), options);
}
void Tensor::backward(const BackwardOptions& options) const { backward(Tensor(), options); }

HookHandle Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  return lockstep::register_hook(*this, std::move(hook));
}

HookHandle register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook) {
  impl_of("register_hook", tensor);
  expect<AutogradError>(autograd::needs_grad(tensor), "register_hook",
                        "a tensor that requires a gradient, got one that does not");
  expect(hook != nullptr, "register_hook", "a function, got none");
  autograd::refuse_inner("register_hook", tensor);
  autograd::Meta& meta = *autograd::meta_of(tensor);
  return meta.grad_fn ? meta.grad_fn->hooks.add({meta.output, std::move(hook)}) : meta.leaf_hooks.add(std::move(hook));
}

HookHandle register_accumulated_hook(const Tensor& leaf, std::function<void(const Tensor&)> hook) {
  impl_of("register_accumulated_hook", leaf);
  expect<AutogradError>(leaf.is_leaf() && leaf.requires_grad(), "register_accumulated_hook",
                        "a leaf that requires a gradient, got another tensor");
  expect(hook != nullptr, "register_accumulated_hook", "a function, got none");
  return autograd::make_meta(leaf).accumulated_hooks.add(std::move(hook));
}

}  // namespace lockstep
