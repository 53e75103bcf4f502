#include "autograd/in_place.h"

#include "autograd/saved.h"
#include "core/context.h"
#include "core/text.h"
#include "tensor/overlap.h"

namespace lockstep::autograd {

void notify_in_place(const Tensor& target) {
  if (SaveListener* const listener = context().save_listener) listener->on_in_place(target);
}

void check_recorded_in_place(const char* op, const Tensor& target) {
  const TensorImpl& impl = *target.impl();
  const Tensor& base = impl.follows_base ? impl.base : target;
  if (needs_grad(base) && !meta_of(base)->grad_fn)
    throw AutogradError(text("[", op, "] cannot change a ", impl.follows_base ? "view of a leaf" : "leaf", " of shape ",
                             base.sizes(), " in place, because the leaf requires a gradient: change it under NoGrad"));
  const TensorImpl& all = *base.impl();
  if (impl.storage->references != 1 + all.views || all.storage != impl.storage || all.saves != 0)
    throw AutogradError(text("[", op, "] cannot change this tensor of shape ", target.sizes(),
                             " in place while gradients are recorded: its memory is saved for backward, or shared "
                             "with a detach() or a view made under NoGrad. clone() it first, or use the out-of-place "
                             "operation"));
}

void refuse_hidden_graph(const char* op, const Tensor& target) {
  throw AutogradError(
      text("[", op, "] cannot change a view of shape ", target.sizes(),
           " in place while gradients are recorded, because it was made under NoGrad from a tensor that "
           "requires a gradient: change it under NoGrad, or make the view outside of NoGrad"));
}

void check_memory_in_place(const char* op, const Tensor& target, const Tensor& input) {
  const TensorImpl &written = *target.impl(), &read = *input.impl();
  if (overlaps_itself(written))
    throw InvalidArgument(
        text("[", op, "] cannot change in place a view in which several elements share memory (expand), got shape ",
             written.sizes, " with strides ", written.strides, ": clone() it first"));
  if (overlaps_elsewhere(written, read))
    throw InvalidArgument(text("[", op,
                               "] expected an argument that shares no memory with the tensor that changes, got one of "
                               "shape ",
                               read.sizes, " that overlaps the target of shape ", written.sizes, ": clone() it first"));
}

}  // namespace lockstep::autograd
