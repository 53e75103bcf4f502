// Visits and pins the tensors of a batch. Safe from any thread.
#pragma once

#include <cstddef>

#include <lockstep/core/export.h>
#include <lockstep/runtime/device.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep::data::detail {

[[noreturn]] LOCKSTEP_API void throw_hides_tensors();

/// Calls visit(tensor) for each defined tensor of a batch; for a batch of a type in which the library may not find all
/// tensors (kHidesNoTensors is false), calls refuse(), which throws InvalidArgument.
template <class Batch, class Visit>
void for_each_tensor_of(Batch& batch, const Visit& visit, void (*refuse)() = throw_hides_tensors) {
  visit_tensors(
      batch, MemberPath(),
      [&](const MemberPath&, Tensor& tensor) {
        if (tensor.defined()) visit(tensor);
      },
      [=]<class Part>(const MemberPath&, const Part&) {
        if constexpr (!kHidesNoTensors<Part>) refuse();
      },
      [](const MemberPath&, std::size_t) {});
}

/// Moves the tensors of a batch that are on the CPU to pinned memory. No effect without a GPU.
template <class Batch>
void pin_tensors_of(Batch& batch) {
  if (!cuda::is_available()) return;
  for_each_tensor_of(batch, [](Tensor& tensor) {
    if (tensor.device().is_cpu()) tensor = tensor.pin_memory();
  });
}

}  // namespace lockstep::data::detail
