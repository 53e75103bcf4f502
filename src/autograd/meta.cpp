#include "autograd/meta.h"

#include "autograd/deferred_destruction.h"

namespace lockstep::autograd {

Meta::~Meta() {
  const bool last_of_node = grad_fn && grad_fn.use_count() == 1;
  if (!last_of_node && !grad.defined() && leaf_hooks.is_new() && accumulated_hooks.is_new()) return;
  DeferredDestruction::destroy([&](DeferredDestruction& all) {
    all.add(std::move(grad_fn));
    all.add(leaf_hooks.take());
    all.add(accumulated_hooks.take());
    all.add(std::move(grad));
  });
}

Meta& make_meta(const Tensor& tensor) {
  auto& state = tensor.impl()->autograd;
  if (!state) state = std::make_unique<Meta>();
  return static_cast<Meta&>(*state);
}

void retain_gradient(Meta& meta) {
  meta.retains.remove();
  meta.retained = std::make_shared<Tensor>();
  meta.retains = meta.grad_fn->hooks.add({meta.output, [kept = meta.retained](const Tensor& gradient) {
                                            *kept = kept->defined() ? kept->clone().add_(gradient) : gradient;
                                            return Tensor();
                                          }});
}

void check_idle(const char* op, const Tensor& tensor) {
  if (const Replica* const replica = replica_of(tensor)) replica->parameter->check_idle(op);
}

void clear_grad(const char* op, const Tensor& tensor) {
  Meta* const meta = meta_of(tensor);
  if (!meta) return;
  check_idle(op, tensor);
  if (const Replica* const replica = replica_of(tensor))
    replica->parameter->set_gradient(*replica, Tensor());
  else
    meta->kept_grad() = Tensor();
}

}  // namespace lockstep::autograd
