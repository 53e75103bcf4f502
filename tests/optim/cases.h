// Every optimizer with every option, each beside the same arithmetic written out naively for one number.
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
  /// Where a number that starts at p is after steps with these gradients, as PyTorch's documentation has it.
  std::function<double(double p, const std::vector<double>& gradients)> naive;
};

const std::vector<OptimizerCase>& optimizer_cases();

/// The gradient of element `element` of parameter `parameter` at step `step`: any numbers.
double some_gradient(std::size_t parameter, std::int64_t element, int step);

/// Parameters of awkward sizes, some of them neighbours in memory, each with the same values on every device; the first
/// device's are the primaries.
std::vector<Tensor> make_parameters(const std::vector<Device>& devices, DType dtype = kFloat64);
/// Gives each of them, in each place, the gradient of that step.
void set_gradients(const std::vector<Tensor>& parameters, int step);

/// The values on the device with that place among the parameter's, as float64.
std::vector<double> values_in(const Tensor& parameter, std::size_t place = 0);

}  // namespace lockstep::testing
