// backward() and gradients(): check the arguments, run a GraphTask, and drain its devices if it fails.
#include <lockstep/autograd/autograd.h>

#include <lockstep/runtime/drain.h>

#include "autograd/graph_task.h"
#include "autograd/meta.h"
#include "core/text.h"

namespace lockstep {
namespace {

void check_roots(const char* op, std::span<const Tensor> roots, std::span<const Tensor> gradients) {
  if (roots.empty()) throw InvalidArgument(text("[", op, "] expected at least one root, got none"));
  if (!gradients.empty() && gradients.size() != roots.size())
    throw InvalidArgument(
        text("[", op, "] expected one gradient for each of ", roots.size(), " roots, got ", gradients.size()));
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const Tensor& root = roots[i];
    impl_of(op, root);
    if (!autograd::needs_grad(root))
      throw AutogradError(text("[", op, "] this tensor of shape ", root.sizes(),
                               " does not require a gradient: nothing it was computed from does (all parameters "
                               "frozen, computed under NoGrad, detached, returned by a CapturedStep, or computed by an "
                               "operation without a gradient, such as argmax or a comparison?). Call backward() on the "
                               "loss before detach(), outside "
                               "NoGrad"));
    const bool given = !gradients.empty() && gradients[i].defined();
    if (!given && root.numel() != 1)
      throw ShapeError(text("[", op, "] only a root with one element has a default gradient, got shape ", root.sizes(),
                            ": pass its gradient, or reduce it to a scalar"));
    if (!given) continue;
    check_same_device(op, root, gradients[i]);
    if (gradients[i].sizes() != root.sizes())
      throw ShapeError(text("[", op, "] expected a gradient of shape ", root.sizes(), ", got ", gradients[i].sizes()));
    if (gradients[i].dtype() != root.dtype())
      throw DTypeError(text("[", op, "] expected a gradient of ", root.dtype(), ", got ", gradients[i].dtype()));
  }
}

// Adds the roots to the task, each with its gradient times `weight`.
void add_roots(autograd::GraphTask& task, std::span<const Tensor> roots, std::span<const Tensor> gradients,
               double weight) {
  for (std::size_t i = 0; i < roots.size(); ++i) {
    Tensor seed = gradients.empty() ? Tensor() : gradients[i];
    if (!seed.defined()) {
      seed = make_tensor(*roots[i].impl()->storage->device, roots[i].sizes(), roots[i].dtype());
      seed.fill_(weight);
    } else if (weight != 1) {
      seed = seed.mul(weight);
    }
    task.add_root(roots[i], seed);
  }
}

// Checks captured gradients as the grad accumulator of a leaf checks the leaf's gradient.
void check_captured(std::span<const Tensor> inputs, std::span<const Tensor> captured) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor &input = inputs[i], &got = captured[i];
    if (!got.defined() ||
        (got.sizes() == input.sizes() && got.dtype() == input.dtype() && got.device() == input.device()))
      continue;
    throw AutogradError(text("[gradients] expected the gradient of input ", i, " to be ", input.sizes(), " of ",
                             input.dtype(), " on ", input.device(), ", got ", got.sizes(), " of ", got.dtype(), " on ",
                             got.device()));
  }
}

}  // namespace

void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients, const BackwardOptions& options) {
  check_roots("backward", roots, gradients);
  autograd::GraphTask task(options);
  try {
    for (const Tensor& root : roots) task.reach(root);
    const double weight = task.weigh_passes();
    task.run([&] { add_roots(task, roots, gradients, weight); });
  } catch (...) {
    detail::rethrow_drained(task.devices());
  }
}

std::vector<Tensor> gradients(std::span<const Tensor> roots, std::span<const Tensor> inputs,
                              std::span<const Tensor> seeds, const BackwardOptions& options) {
  check_roots("gradients", roots, seeds);
  autograd::GraphTask task(options);
  try {
    for (const Tensor& root : roots) task.reach(root);
    task.capture(inputs);
    task.run([&] { add_roots(task, roots, seeds, 1); });
    std::vector<Tensor> captured = task.captured();
    check_captured(inputs, captured);
    return captured;
  } catch (...) {
    detail::rethrow_drained(task.devices());
  }
}

}  // namespace lockstep
