// CapturedStep: a training step that GPUs replay without the host. Its work is captured once, as a CUDA graph, and
// replayed by one launch per batch. For models whose steps are so short that the host's calls take longer than the
// work.
//
//   train::CapturedStep step([&](const Tensor& images, const Tensor& labels) {
//     optimizer.zero_grad();
//     Tensor loss = nn::cross_entropy(model(images), labels);
//     loss.backward();
//     optim::clip_grad_norm_(model.parameters(), 1.0);
//     optimizer.step();
//     schedule.step();
//     return loss;
//   });
//   for (const auto& [images, labels] : loader) total += step(images, labels);
//
// The first two steps run eagerly, since they allocate state and lay out gradients; the third is captured. From then on
// all device work of the function is replayed with the same shapes, and gives the bits of an eager step: each step has
// its own learning rates, step counts and offset in the random sequence. Host work of the function, such as counting or
// printing, happens only in the eager steps and in the captured step.
//
// Before each launch the step checks that its dependencies are as they were at capture: modes and settings of modules,
// the tensors that require gradients, gradients, optimizer state, autocast, streams. If something has changed, the step
// runs eagerly; if the change persists, it is captured again. docs/captured-steps.md.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep::train {

/// Options of a CapturedStep.
struct CapturedStepOptions {
  int eager_steps = 2;  ///< Steps before the capture; at least 1.
};

namespace detail {

/// The part of CapturedStep that does not depend on the function's type.
class LOCKSTEP_API StepGraph {
 public:
  using Step = std::function<Tensor(const std::vector<Tensor>&)>;

  explicit StepGraph(const CapturedStepOptions& options);
  StepGraph(StepGraph&&) noexcept;
  StepGraph& operator=(StepGraph&&) noexcept;
  ~StepGraph();

  Tensor run(const std::vector<Tensor>& inputs, const Step& step);
  bool is_captured() const noexcept;
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

/// Wraps a function of tensors that takes one training step and returns a tensor or nothing. The function must do the
/// same work each time, and all objects that it refers to must outlive the CapturedStep. A movable value.
template <class Function>
class CapturedStep {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit CapturedStep(Function function, const CapturedStepOptions& options = {})
      : function_(std::move(function)), graph_(options) {}

  /// Takes a step. Inputs on the CPU are copied to the first GPU. Returns the function's result, detached. After the
  /// capture the result is the same tensor each time; the next step overwrites it and the gradients. Enqueues on the
  /// current streams and does not wait. Runs eagerly if there is no GPU, if an input requires gradients, or if the
  /// inputs' shapes differ from the captured ones (a last, smaller batch). A step is captured only if its inputs have
  /// the shapes of the step before.
  ///
  /// Throws InvalidArgument, during the capture, if the function reads a value on the host (item(), a copy to the CPU,
  /// error_if_nonfinite, GradScaler), copies from the host, draws from a random generator that one replica has for
  /// itself, calls backward() on a result of an earlier forward pass, or communicates with other processes. The work up
  /// to that point is done, as in an eager step that throws there. Also throws InvalidArgument if an optimizer, a
  /// schedule or a module of the captured step was destroyed, and if the CapturedStep was moved from.
  template <class... Inputs>
  Tensor operator()(const Inputs&... inputs) {
    static_assert((std::is_convertible_v<const Inputs&, Tensor> && ...), "a captured step takes tensors");
    return graph_.run({inputs...}, [this](const std::vector<Tensor>& given) {
      return call(given, std::make_index_sequence<sizeof...(Inputs)>());
    });
  }

  bool is_captured() const noexcept { return graph_.is_captured(); }  ///< True if steps are replayed.
  /// Drops the capture: the next steps run eagerly, then a step is captured again. Call this when the function's host
  /// code changes its behaviour. Throws InvalidArgument if the CapturedStep was moved from.
  void reset() { graph_.reset(); }

 private:
  template <std::size_t... I>
  Tensor call(const std::vector<Tensor>& given, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<decltype(function_(given[I]...))>)
      return function_(given[I]...), Tensor();
    else
      return function_(given[I]...);
  }

  Function function_;
  detail::StepGraph graph_;
};

}  // namespace lockstep::train
