#include "autograd/in_place.h"

#include "autograd/saved.h"
#include "core/context.h"
#include "core/text.h"
#include "tensor/overlap.h"

namespace lockstep::autograd {

void about_to_change(const Tensor& target) {
  if (SaveListener* const listener = context().save_listener) listener->changes(target);
}

void check_recorded_in_place(const char* op, const Tensor& target) {
  const TensorImpl& impl = *target.impl();
  const Tensor& base = impl.follows_base ? impl.base : target;
  if (needs_grad(base) && !meta_of(base)->grad_fn)
    throw AutogradError(text("[", op, "] expected a tensor that may change in place, got a ",
                             impl.follows_base ? "view of a leaf" : "leaf", " of shape ", base.sizes(),
                             " that requires a gradient: change it under NoGrad"));
  const TensorImpl& all = *base.impl();
  if (impl.storage->references != 1 + all.views || all.storage != impl.storage || all.saves != 0)
    throw AutogradError(text(
        "[", op, "] expected memory that backward can follow for a recorded change in place, got a tensor of shape ",
        target.sizes(), " whose memory is saved for backward, or shared by detach() or by a view made under NoGrad"));
}

void check_memory_in_place(const char* op, const Tensor& target, const Tensor& input) {
  const TensorImpl &written = *target.impl(), &read = *input.impl();
  if (overlaps_itself(written))
    throw InvalidArgument(
        text("[", op, "] expected a target whose elements have memory of their own, got an expanded view of shape ",
             written.sizes, " with strides ", written.strides));
  if (overlaps_elsewhere(written, read))
    throw InvalidArgument(text("[", op,
                               "] expected an argument apart from the memory that changes, got a view of shape ",
                               read.sizes, " that overlaps the target of shape ", written.sizes, ": clone() it first"));
}

}  // namespace lockstep::autograd
