#include "autograd/saved.h"

#include <lockstep/autograd/grad_mode.h>

#include "autograd/meta.h"
#include "core/text.h"

namespace lockstep::autograd {

Saved::Saved(const Tensor& tensor, SavedAs as) : version_(tensor.version()), as_(as) {
  tensor_ = as == SavedAs::output ? tensor.detach() : tensor;
  count();
}

Tensor Saved::get() const {
  if (!tensor_.defined()) return tensor_;
  const RunningNode* const running = RunningNode::current();
  if (tensor_.version() != version_)
    throw AutogradError(text("[", running ? running->node->name : "backward", "] expected a saved tensor of shape ",
                             tensor_.sizes(), " at version ", version_, ", got version ", tensor_.version(),
                             ": it was changed in place"));
  if (as_ == SavedAs::input || !grad_enabled() || !running) return tensor_;
  Tensor output = tensor_.detach();
  make_meta(output).grad_fn = running->node;
  return output;
}

}  // namespace lockstep::autograd
