// Gradients: functions beyond Tensor's members.
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
  bool retain_graph = false;  ///< Keep the saved tensors, for another backward.
  /// Record the gradients themselves, for gradients of gradients; implies retain_graph. A leaf's .grad then holds a
  /// graph that holds the leaf. To break this reference cycle, drop the gradient (zero_grad(), set_grad({})).
  /// gradients() makes no such cycle.
  bool create_graph = false;
};

/// Accumulates into the leaves the gradients of the sum over `roots`, each weighted by its element of `gradients`. An
/// undefined Tensor in `gradients` stands for 1; its root must have one element. All devices of the graph work
/// concurrently, each on its own thread and streams. Throws AutogradError for a root that does not require a gradient,
/// or a graph that was already freed; an error in a node names the forward op. Before backward throws, it drains the
/// devices that it used, which clears their streams' errors.
LOCKSTEP_API void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients = {},
                           const BackwardOptions& options = {});
inline void backward(std::initializer_list<Tensor> roots, std::span<const Tensor> gradients = {},
                     const BackwardOptions& options = {}) {
  backward(std::span(roots.begin(), roots.size()), gradients, options);
}

/// Returns the gradients with respect to `inputs` without accumulating them; an undefined Tensor for an input on
/// which no root depends. Gradients of parameters of a DataParallel are summed over the replicas.
LOCKSTEP_API std::vector<Tensor> gradients(std::span<const Tensor> roots, std::span<const Tensor> inputs,
                                           std::span<const Tensor> seeds = {}, const BackwardOptions& options = {});
inline std::vector<Tensor> gradients(std::initializer_list<Tensor> roots, std::initializer_list<Tensor> inputs,
                                     std::span<const Tensor> seeds = {}, const BackwardOptions& options = {}) {
  return gradients(std::span(roots.begin(), roots.size()), std::span(inputs.begin(), inputs.size()), seeds, options);
}

namespace autograd {
/// The hook behind a HookHandle.
class RemovableHook {
 public:
  virtual ~RemovableHook() = default;
  virtual void remove() noexcept = 0;  ///< Removes the hook.
};
}  // namespace autograd

/// A copyable handle that removes a hook. Destroying the handle does not remove the hook.
class LOCKSTEP_API HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(const std::shared_ptr<autograd::RemovableHook>& hook) : hook_(hook) {}
  /// Removes the hook: it is not called any more, and the objects that it holds are freed. A call in progress (for
  /// example if the hook removes itself) runs to its end and keeps these objects until then.
  void remove() const noexcept {
    if (const auto hook = hook_.lock()) hook->remove();
  }

 private:
  std::weak_ptr<autograd::RemovableHook> hook_;
};

// A hook lives as long as its tensor, or the graph that computed the tensor. A hook that holds its own tensor, or a
// result of that tensor, therefore keeps both alive until the hook is removed; let it hold a detach() of the tensor. Do
// not add hooks while a backward through their tensor runs on another thread. Random numbers that hooks draw depend on
// the generator of the thread that called backward(), and on the device.

/// Calls `hook` with the gradient of `tensor` when backward has computed it. If the hook returns a defined Tensor, that
/// tensor replaces the gradient. The hook of a leaf runs before the gradient is accumulated. A hook on a parameter of a
/// DataParallel with several devices or processes runs at the end of each backward, on the caller's thread, once in
/// each process. It gets the sum over all replicas of all processes. (Therefore a backward with such a hook sums even
/// under no_sync().) All processes must add the same hooks. Throws AutogradError if the tensor does not require a
/// gradient, InvalidArgument for an empty function.
LOCKSTEP_API HookHandle register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook);
/// register_hook() for a hook that returns nothing.
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
/// the device of the first root, else on the thread of its device. For a parameter of a DataParallel it runs at the end
/// of each backward, as hooks of register_hook() do. Throws AutogradError if `leaf` is not a leaf that requires a
/// gradient, InvalidArgument for an empty function.
LOCKSTEP_API HookHandle register_accumulated_hook(const Tensor& leaf, std::function<void(const Tensor&)> hook);

/// Computes the gradients of the inputs, in order, from the gradient of the result. An undefined Tensor stands for no
/// gradient.
using CustomBackward = std::function<std::vector<Tensor>(const Tensor& gradient)>;

/// A view of `result` with a custom gradient: backward calls `backward` on the thread that runs the nodes of the
/// result's device, and the gradients that it returns flow to `inputs`. The operations that computed `result` get no
/// gradient from this view. With create_graph, the operations inside `backward` are recorded. `name` appears in errors
/// and must outlive the graph; the objects that `backward` holds are released with the graph. Backward throws
/// AutogradError if the gradients' number, shapes, dtypes or devices differ from the inputs'. Throws DTypeError unless
/// the result is floating, InvalidArgument for an empty function.
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
