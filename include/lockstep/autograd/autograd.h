// Gradients: what goes beyond Tensor's own members.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct BackwardOptions {
  bool retain_graph = false;  ///< Keep what the graph saved, for another backward.
  /// Record the gradients themselves, for gradients of gradients; implies retain_graph. A leaf's .grad then holds a
  /// graph that holds the leaf: neither goes before the gradient is dropped (zero_grad(), set_grad({})). gradients()
  /// makes no such circle.
  bool create_graph = false;
};

/// Accumulates into the leaves the gradients of the sum over `roots`, each weighted by its gradient.
/// An undefined gradient stands for 1 and needs a root of one element. Every device of the graph works at once, on
/// its own thread and streams. Throws AutogradError for a root that needs no gradient or a graph already freed;
/// an error in a node names the forward op. What it throws has drained the devices that it used: their streams are
/// without errors.
LOCKSTEP_API void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients = {},
                           const BackwardOptions& options = {});
inline void backward(std::initializer_list<Tensor> roots, std::span<const Tensor> gradients = {},
                     const BackwardOptions& options = {}) {
  backward(std::span(roots.begin(), roots.size()), gradients, options);
}

/// The gradients with respect to `inputs`, which are not accumulated; undefined where a root does not depend on one.
/// Those of parameters of a DataParallel are summed over the replicas.
LOCKSTEP_API std::vector<Tensor> gradients(std::span<const Tensor> roots, std::span<const Tensor> inputs,
                                           std::span<const Tensor> seeds = {}, const BackwardOptions& options = {});
inline std::vector<Tensor> gradients(std::initializer_list<Tensor> roots, std::initializer_list<Tensor> inputs,
                                     std::span<const Tensor> seeds = {}, const BackwardOptions& options = {}) {
  return gradients(std::span(roots.begin(), roots.size()), std::span(inputs.begin(), inputs.size()), seeds, options);
}

namespace autograd {
/// What a HookHandle refers to.
class RemovableHook {
 public:
  virtual ~RemovableHook() = default;
  virtual void remove() noexcept = 0;  ///< Takes the hook back.
};
}  // namespace autograd

/// Takes a hook back. A value; without it the hook stays.
class LOCKSTEP_API HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(const std::shared_ptr<autograd::RemovableHook>& hook) : hook_(hook) {}
  /// From here on the hook is not called, and what it holds is freed. A call that has begun goes on, and keeps what it
  /// holds to its end; from within the hook too.
  void remove() const noexcept {
    if (const auto hook = hook_.lock()) hook->remove();
  }

 private:
  std::weak_ptr<autograd::RemovableHook> hook_;
};

// A hook lives as long as its tensor, or the graph that made that. One that holds its own tensor, or a result of it,
// therefore keeps both alive, until the hook is removed: let it hold a detach() of the tensor.
// Hooks are not to be added while a backward through their tensor runs on another thread. Random numbers that they draw
// follow from the sequence of backward's caller and from the device.

/// Calls `hook` with the gradient of `tensor` when backward has it; a defined result replaces it.
/// For a leaf it runs before accumulation. A hook on a parameter of a DataParallel that has several devices or
/// processes runs at the end of each backward, on the caller's thread, once in each process: it sees the sum over all
/// replicas of all processes, under no_sync() too, where such a backward therefore sums. All processes add the same
/// hooks. Throws AutogradError if the tensor needs no
/// gradient, InvalidArgument for no function.
LOCKSTEP_API HookHandle register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook);
/// The same for a hook that returns nothing.
template <std::invocable<const Tensor&> Hook>
requires std::is_void_v<std::invoke_result_t<Hook&, const Tensor&>> HookHandle register_hook(const Tensor& tensor,
                                                                                             Hook hook) {
  return register_hook(tensor,
                       std::function<Tensor(const Tensor&)>([hook = std::move(hook)](const Tensor& gradient) mutable {
                         hook(gradient);
                         return Tensor();
                       }));
}
template <std::invocable<const Tensor&> Hook>
requires std::is_void_v<std::invoke_result_t<Hook&, const Tensor&>> HookHandle Tensor::register_hook(Hook hook)
const { return lockstep::register_hook(*this, std::move(hook)); }

/// Calls `hook` after a gradient was accumulated into `leaf`: on the caller's thread if the leaf is on the CPU or on
/// the device of the first root, else on that of its device. For a parameter of a DataParallel it runs as the other
/// hooks do. Throws as register_hook().
LOCKSTEP_API HookHandle register_accumulated_hook(const Tensor& leaf, std::function<void(const Tensor&)> hook);

/// From the gradient of a result to those of the inputs, in order; undefined for none.
using CustomBackward = std::function<std::vector<Tensor>(const Tensor& gradient)>;

/// A view of `result`, with a gradient of the caller's own: backward calls `backward`, on the thread on which it runs
/// what is on the result's device, and what that returns flows to `inputs`. How the result was computed plays no part.
/// With create_graph the operations inside `backward` are recorded. `name` appears in errors and outlives the graph;
/// what `backward` holds is released with the graph. Gradients that do not fit the inputs, or are not as many, are an
/// AutogradError in backward. Throws DTypeError unless the result is floating, InvalidArgument for no function.
///
///   Tensor reverse_gradient(const Tensor& x) {
///     return custom_gradient("ReverseGradient", x, {x}, [](const Tensor& g) { return std::vector{-g}; });
///   }
LOCKSTEP_API Tensor custom_gradient(const char* name, const Tensor& result, std::span<const Tensor> inputs,
                                    CustomBackward backward);
inline Tensor custom_gradient(const char* name, const Tensor& result, std::initializer_list<Tensor> inputs,
                              CustomBackward backward) {
  return custom_gradient(name, result, std::span(inputs.begin(), inputs.size()), std::move(backward));
}

}  // namespace lockstep
