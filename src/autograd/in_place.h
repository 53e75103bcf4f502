// Checks for in-place operations.
#pragma once

#include <lockstep/tensor/tensor.h>

#include "autograd/views.h"

namespace lockstep::autograd {

/// Tells the innermost checkpoint() of this thread that `target` will change in place. check_in_place() calls it.
void notify_in_place(const Tensor& target);

void check_recorded_in_place(const char* op, const Tensor& target);
[[noreturn]] void refuse_hidden_graph(const char* op, const Tensor& target);
void check_memory_in_place(const char* op, const Tensor& target, const Tensor& input);

/// To be called by an operation before it reads `inputs` and changes `target` in place. Throws InvalidArgument if the
/// result would depend on the order of elements: if elements of the target share memory (expand), or if an input
/// overlaps the target's memory, except that each element may overlap its own target element. If the change will be
/// recorded, throws AutogradError for targets that cannot be recorded: a leaf that requires a gradient, or a view of
/// such a leaf; memory that is saved for backward; memory shared with a tensor that does not follow the target's graph
/// (detach(), or a view made under NoGrad). If a view was made under NoGrad of a tensor that requires a gradient, it
/// may be changed only under NoGrad. If the target is pinned, waits for the copies that read it.
template <class... Tensors>
void check_in_place(const char* op, const Tensor& target, const Tensors&... inputs) {
  const TensorImpl& own = impl_of(op, target);
  (impl_of(op, inputs), ...);
  [[maybe_unused]] const auto apart = [&](const TensorImpl& input) {
    return input.storage != own.storage || &input == &own;
  };
  if (!(own.contiguous && (apart(*inputs.impl()) && ...))) {
    check_memory_in_place(op, target, target);
    (check_memory_in_place(op, target, inputs), ...);
  }
  if (own.hides_graph && grad_enabled()) refuse_hidden_graph(op, target);
  if (records(target, inputs...)) check_recorded_in_place(op, target);
  wait_for_copies_from(own);
  notify_in_place(target);
}

}  // namespace lockstep::autograd
