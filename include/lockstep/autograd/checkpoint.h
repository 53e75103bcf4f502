// Activation checkpointing: the tensors that a function saves for backward are dropped; when backward needs them, it
// runs the function again. So a deep model needs memory for the saved tensors of one part at a time (Chen, Xu, Zhang,
// Guestrin, "Training deep nets with sublinear memory cost", 2016).
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

namespace autograd {
class CheckpointFrame;
}  // namespace autograd

namespace detail {
/// While it lives, this thread drops the tensors that operations save for backward.
class LOCKSTEP_API CheckpointedScope {
 public:
  CheckpointedScope(std::vector<Tensor> inputs, std::function<void(std::span<const Tensor>)> again);
  ~CheckpointedScope();
  CheckpointedScope(const CheckpointedScope&) = delete;
  CheckpointedScope& operator=(const CheckpointedScope&) = delete;

 private:
  std::shared_ptr<autograd::CheckpointFrame> frame_;  // null if gradients are not recorded
};
}  // namespace detail

/// Returns function(inputs...); backward runs the function again for the saved tensors that it needs. The function may
/// return anything, use parameters and modules that outlive backward, and contain checkpoints itself.
///
///   h = checkpoint([&](const Tensor& x) { return block(x); }, h);
///
/// The second run draws the same random numbers and sees the same shard of the batch and the same autocast region.
/// Tensors that the function changes in place (running statistics, other buffers) have in the second run the values
/// from before the first run, in other memory, so they change once. The second run prints nothing. It must compute the
/// same as the first run; if it saves other tensors, backward throws AutogradError. The function cannot call backward()
/// or gradients() on what it computes: AutogradError. Each backward of a retained graph runs it again. Tensors that the
/// function captures are kept; pass tensors that should be dropped as inputs. In a pass of several
/// replicas, sum_over_replicas() (and SyncBatchNorm) throw InvalidArgument inside the function, since the other
/// replicas would not take part in the second run.
template <class F, std::convertible_to<Tensor>... Inputs>
requires std::invocable<F&, const Inputs&...>
auto checkpoint(F function, const Inputs&... inputs) {
  const auto shared = std::make_shared<F>(std::move(function));
  const detail::CheckpointedScope scope({inputs...}, [shared](std::span<const Tensor> again) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { std::invoke(*shared, again[I]...); }
    (std::index_sequence_for<Inputs...>());
  });
  return std::invoke(*shared, inputs...);
}

}  // namespace lockstep
