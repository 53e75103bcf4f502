// A table of a model's modules.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <lockstep/nn/module.h>

namespace lockstep::nn {

namespace detail {
LOCKSTEP_API std::string summarize(ModuleBase& model, const std::function<void()>& run);
}

/// Returns a table of the modules, in order, with the shape of each one's output for these inputs and the number of its
/// own parameters; below them the totals, the bytes of parameters and buffers, and the pass's peak memory on the
/// device. Runs the model once, in evaluation mode and without gradients. (For a DataParallel pass model.module().)
/// Throws the model's errors.
///   print("{}\n", nn::summary(net, zeros({1, 3, 32, 32})));
template <class M, class... Inputs>
[[nodiscard]] std::string summary(M& model, Inputs&&... inputs) {
  return detail::summarize(model, [&] { model(std::forward<Inputs>(inputs)...); });
}

}  // namespace lockstep::nn
