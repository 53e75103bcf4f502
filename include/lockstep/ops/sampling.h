// Random draws from distributions that tensors give. Not differentiable. Numbers come from the calling thread's
// sequence (lockstep/tensor/random.h), the same ones on every device.
#pragma once

#include <cstdint>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// 1 with the probability that p says for each element, else 0; of p's dtype. Throws DTypeError unless p is floating. A
/// p outside [0, 1] counts as 0 or 1, NaN as 0.
LOCKSTEP_API Tensor bernoulli(const Tensor& p);

/// Normal with these means and standard deviations, which broadcast: float32 or the tensors' dtype. Throws DTypeError
/// unless the tensors are floating.
LOCKSTEP_API Tensor normal(const Tensor& mean, const Tensor& standard_deviation);
LOCKSTEP_API Tensor normal(const Tensor& mean, double standard_deviation = 1);
LOCKSTEP_API Tensor normal(double mean, const Tensor& standard_deviation);
LOCKSTEP_API Tensor normal(double mean, double standard_deviation, const Shape& sizes,
                           const TensorOptions& options = {});

/// int64 [count] or [rows, count]: `count` places of each row, drawn with the row's weights, which need not sum to 1.
/// weights: [n] or [rows, n], floating. Each place at most once, unless `replacement`. The host waits for the device.
/// Throws InvalidArgument for weights that are negative or not finite, and for rows with too few that are not 0.
LOCKSTEP_API Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement = false);

}  // namespace lockstep
