// Activation checkpointing: what a function saves for backward is dropped, and made again by running the function again
// when backward comes to it. A deep model needs the memory of one part at a time (Chen, Xu, Zhang, Guestrin, "Training
// deep nets with sublinear memory cost", 2016).
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
class Tape;
}  // namespace autograd

namespace detail {
/// While it lives, this thread drops what operations save.
class LOCKSTEP_API CheckpointedScope {
 public:
  CheckpointedScope(std::vector<Tensor> inputs, std::function<void(std::span<const Tensor>)> again);
  ~CheckpointedScope();
  CheckpointedScope(const CheckpointedScope&) = delete;
  CheckpointedScope& operator=(const CheckpointedScope&) = delete;

 private:
  std::shared_ptr<autograd::Tape> tape_;  // null where nothing is recorded
};
}  // namespace detail

/// function(inputs...), of which backward computes again what it needs. The function may return anything, use
/// parameters and modules that outlive backward, and contain checkpoints itself.
///
///   h = checkpoint([&](const Tensor& x) { return block(x); }, h);
///
/// The second run draws the same random numbers and sees the same part of the batch and the same autocast region. It
/// begins with the tensors that the function changes in place (running statistics, other buffers) as the first run
/// found them, and ends with those that it found itself, so they change once. It prints nothing. The function must do
/// the same again: backward throws AutogradError where it saves something else. What it captures is kept, so tensors
/// that should be dropped are to be given as inputs. Inside of a pass of several replicas, sum_over_replicas() (and
/// SyncBatchNorm) throw InvalidArgument in the function, since the other replicas would not take part in the second
/// run.
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
