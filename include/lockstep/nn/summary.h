// What a model consists of, as a table.
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

/// The modules in their order, with the shape that each gave back for these inputs, the number of its own parameters,
/// and below the totals, the bytes of parameters and buffers, and what the pass took of the device's memory at its
/// peak. Runs the model once, in evaluation mode and without gradients. (Of a DataParallel: give model.module().)
/// Errors are the model's.
///   print("{}\n", nn::summary(net, zeros({1, 3, 32, 32})));
template <class M, class... Inputs>
[[nodiscard]] std::string summary(M& model, Inputs&&... inputs) {
  return detail::summarize(model, [&] { model(std::forward<Inputs>(inputs)...); });
}

}  // namespace lockstep::nn
