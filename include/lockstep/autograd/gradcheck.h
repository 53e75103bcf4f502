// Checks gradients against central differences. The tests of all differentiable ops use it.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct GradcheckOptions {
  double step = 1e-5;      ///< The step of the central differences.
  double relative = 1e-6;  ///< The tolerance is relative * |expected| + absolute.
  double absolute = 1e-7;  ///< Added to the tolerance.
};

namespace detail {
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

template <class F>
TensorFunction tensor_function(F function) {
  return [function = std::move(function)](const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
    if constexpr (std::is_same_v<std::invoke_result_t<const F&, const std::vector<Tensor>&>, Tensor>)
      return {function(inputs)};
    else
      return function(inputs);
  };
}

LOCKSTEP_API void gradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                            const GradcheckOptions& options);
LOCKSTEP_API void gradgradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                                const GradcheckOptions& options);
}  // namespace detail

/// Compares the Jacobian that backward computes with a numeric one, element by element. `function` takes const
/// std::vector<Tensor>& and returns a Tensor or a std::vector<Tensor>; it must depend on its inputs only. All floating
/// inputs are checked, and must be float64, else DTypeError. Inputs are not changed. Waits for the inputs' device.
/// Throws AutogradError naming the input, the element, the output, and both values.
template <class F>
void gradcheck(F function, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}) {
  detail::gradcheck(detail::tensor_function(std::move(function)), inputs, options);
}

/// Checks gradients of gradients: runs gradcheck() on the function that maps the inputs and the gradients of the
/// outputs to the gradients of the inputs.
template <class F>
void gradgradcheck(F function, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}) {
  detail::gradgradcheck(detail::tensor_function(std::move(function)), inputs, options);
}

}  // namespace lockstep
