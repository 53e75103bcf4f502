// The cases of the gradient checks: every differentiable function of lockstep/ops, once or more. To add an op, add its
// cases to one of the files.
#pragma once

#include <ostream>
#include <vector>

#include <lockstep/autograd/gradcheck.h>

namespace lockstep {

/// A function of tensors that returns one tensor or a vector of them.
struct DifferentiableFunction {
  template <class F>
  DifferentiableFunction(F function) : call(detail::tensor_function(function)) {}
  detail::TensorFunction call;
};

struct GradientCase {
  const char* name;  ///< The function's name, perhaps followed by "_" and the specialty of the case.
  DifferentiableFunction function;
  std::vector<Shape> sizes;   ///< Sizes of the inputs.
  double low = -2, high = 2;  ///< Range of the inputs.
};

inline void PrintTo(const GradientCase& example, std::ostream* out) { *out << example.name; }

std::vector<GradientCase> attention_gradient_cases();
std::vector<GradientCase> conv_gradient_cases();
std::vector<GradientCase> elementwise_gradient_cases();
std::vector<GradientCase> recurrent_gradient_cases();
std::vector<GradientCase> functional_gradient_cases();
std::vector<GradientCase> structure_gradient_cases();
std::vector<GradientCase> window_gradient_cases();

inline std::vector<GradientCase> all_gradient_cases() {
  std::vector<GradientCase> all;
  for (const auto& cases : {
           attention_gradient_cases(),
           conv_gradient_cases(),
           elementwise_gradient_cases(),
           recurrent_gradient_cases(),
           functional_gradient_cases(),
           structure_gradient_cases(),
           window_gradient_cases(),
       })
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

}  // namespace lockstep
