#include "autograd/saved.h"

#include <lockstep/autograd/grad_mode.h>

#include "autograd/meta.h"
#include "core/context.h"
#include "core/text.h"

namespace lockstep::autograd {

namespace {

// checkpoint() does not drop such a leaf, because its module keeps it anyway.
bool is_trained_leaf(const Tensor& tensor) {
  const Meta* const meta = meta_of(tensor);
  return meta && meta->leaf_requires_grad && !meta->grad_fn;
}

}  // namespace

Saved::Saved(const Tensor& tensor, SavedAs as) : as_(as) {
  if (!tensor.defined()) return;
  version_ = tensor.version();
  if (SaveListener* const listener = context().save_listener; listener && !is_trained_leaf(tensor)) {
    placeholder_ = listener->on_save(tensor);
    if (placeholder_) return;
  }
  tensor_ = as == SavedAs::output ? tensor.detach() : tensor;
  count(1);
}

void Saved::count(int change) const noexcept {
  const TensorImpl& impl = *tensor_.impl();
  (impl.base.defined() ? *impl.base.impl() : *tensor_.impl())
      .saves.fetch_add(std::uint32_t(change), std::memory_order_relaxed);
}

Tensor Saved::overwritable() const {
  const RunningNode* const running = RunningNode::current();
  if (!tensor_.defined() || !running || !running->in.frees_saved() || tensor_.version() != version_ ||
      !tensor_.is_contiguous() || !is_sole_user(tensor_))
    return {};
  // A gradient that is kept must not keep more memory than its own.
  if (tensor_.impl()->storage->bytes != std::size_t(tensor_.numel()) * size_of(tensor_.dtype())) return {};
  return make_view(tensor_, tensor_.sizes(), tensor_.strides(), tensor_.impl()->offset);
}

Tensor Saved::get() const {
  const Tensor tensor = placeholder_ ? placeholder_->get() : tensor_;
  if (!tensor.defined()) return tensor;
  const RunningNode* const running = RunningNode::current();
  if (!placeholder_ && tensor.version() != version_)
    throw AutogradError(
        text("[", running ? running->node->name() : "backward", "] expected a saved tensor of shape ", tensor.sizes(),
             " at version ", version_, ", got version ", tensor.version(),
             ": it was changed in place after the operation saved it. Change a clone() of it, or use the "
             "out-of-place operation"));
  if (as_ == SavedAs::input || !grad_enabled() || !running) return tensor;
  Tensor output = tensor.detach();
  make_meta(output).grad_fn = running->node;
  return output;
}

}  // namespace lockstep::autograd
