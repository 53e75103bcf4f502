// Every optimizer with every option, each with naive scalar code for the same arithmetic.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/optim/optimizer.h>

namespace lockstep::testing {

struct OptimizerCase {
  std::string name;
  std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)> make;
  /// The value of a number that starts at p after steps with these gradients, by PyTorch's documentation.
  std::function<double(double p, const std::vector<double>& gradients)> naive;
};

const std::vector<OptimizerCase>& optimizer_cases();

/// An arbitrary gradient for element `element` of parameter `parameter` at step `step`.
double some_gradient(std::size_t parameter, std::int64_t element, int step);

/// Parameters of awkward sizes, some of them adjacent in memory. Every device has the same values; the first device has
/// the primaries.
std::vector<Tensor> make_parameters(const std::vector<Device>& devices, DType dtype = kFloat64);
/// Gives each parameter, in each replica, the gradient of that step.
void set_gradients(const std::vector<Tensor>& parameters, int step);

/// The values of replica `place` of the parameter, as float64.
std::vector<double> values_in(const Tensor& parameter, std::size_t place = 0);

}  // namespace lockstep::testing
