// A training step that GPUs do again without the host: its work is captured once, as a CUDA graph, and launched by one
// call for each batch. For models whose steps are so short that the host's calls take longer than the work.
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
// The first two steps run eagerly, since they make state and lay gradients out; the third is captured. From then on all
// that the function does on devices is done again with the same shapes, and bit for bit as an eager step would:
// learning rates, step counts and the place in the sequence of random numbers are those of each step. What else it does
// on the host, such as counting or printing, happens in the eager steps and in the captured one alone.
//
// Before each launch the step looks whether what it depends on is as it was captured: modes and settings of modules,
// which tensors require gradients, gradients, optimizer state, autocast, streams. If not, the step is taken eagerly,
// and captured anew if that does not help. docs/captured-steps.md.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep::train {

/// Of a CapturedStep.
struct CapturedStepOptions {
  int eager_steps = 2;  ///< Before the step is captured; at least 1.
};

namespace detail {

/// What does not depend on the function's type.
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

/// A function of tensors that takes one training step, and gives a tensor or nothing. It must do the same work each
/// time, and what it refers to must live as long as this does. A value: it can be moved.
template <class Function>
class CapturedStep {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit CapturedStep(Function function, const CapturedStepOptions& options = {})
      : function_(std::move(function)), graph_(options) {}

  /// Takes a step. Inputs are copied to the first GPU, unless they are on one. Gives what the function gives, without
  /// its graph: after the step was captured that is the same tensor each time, which the next step overwrites, as it
  /// does gradients. Enqueued on the current streams and not waited for. Runs eagerly where there is no GPU, for inputs
  /// that require gradients, and for inputs of other shapes than the captured ones (a last, smaller batch). Captured is
  /// the first step whose inputs have the shapes of those before.
  ///
  /// Throws InvalidArgument, when the step is captured, where the function reads a value on the host (item(), a copy to
  /// the CPU, error_if_nonfinite, GradScaler), copies from the host, draws random numbers of a replica's own, runs a
  /// backward through a pass from before, or works with other processes: what it did until then is done, as by an eager
  /// step that throws there. Throws it too where an optimizer, a schedule or a module of the captured step is gone, and
  /// if this was moved from.
  template <class... Inputs>
  Tensor operator()(const Inputs&... inputs) {
    static_assert((std::is_convertible_v<const Inputs&, Tensor> && ...), "a captured step takes tensors");
    return graph_.run({inputs...}, [this](const std::vector<Tensor>& given) {
      return call(given, std::make_index_sequence<sizeof...(Inputs)>());
    });
  }

  bool is_captured() const noexcept { return graph_.is_captured(); }  ///< Whether steps are done again.
  /// Forgets what was captured: the next steps run eagerly, then one is captured anew. For a change of what the
  /// function does on the host. Throws InvalidArgument if this was moved from.
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
