// What an operation that changes its target has to check first.
#pragma once

#include <lockstep/tensor/tensor.h>

#include "autograd/views.h"

namespace lockstep::autograd {

/// What checkpoint() has to know before a change in place. check_in_place() tells it.
void about_to_change(const Tensor& target);

void check_recorded_in_place(const char* op, const Tensor& target);
void check_memory_in_place(const char* op, const Tensor& target, const Tensor& input);

/// To be called by an operation before it changes `target` in place, reading `inputs`. Throws InvalidArgument where the
/// result would depend on the order of elements: a target that repeats its memory (expand), an input that shares the
/// target's memory other than element by element. Where the change will be recorded, throws AutogradError for what
/// recording could not follow: a leaf that requires a gradient, or a view of one; memory that is saved for backward, or
/// that a tensor shares which does not follow the target's graph (by detach(), or a view made under NoGrad). Waits for
/// copies that read the target, where it is pinned.
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
  if (records(target, inputs...)) check_recorded_in_place(op, target);
  wait_for_copies_from(own);
  about_to_change(target);
}

}  // namespace lockstep::autograd
