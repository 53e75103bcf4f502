// Random draws from distributions whose parameters are tensors. Not differentiable. Numbers come from the calling
// thread's sequence (lockstep/tensor/random.h), the same on every device.
#pragma once

#include <cstdint>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// 1 with probability p, else 0, elementwise; of p's dtype. Throws DTypeError unless p is floating. A p outside [0, 1]
/// is clamped; NaN counts as 0.
LOCKSTEP_API Tensor bernoulli(const Tensor& p);

/// Normal with these means and standard deviations, which broadcast: of the tensors' dtype, or float32. Throws
/// DTypeError unless the tensors are floating.
LOCKSTEP_API Tensor normal(const Tensor& mean, const Tensor& standard_deviation);
LOCKSTEP_API Tensor normal(const Tensor& mean, double standard_deviation = 1);
LOCKSTEP_API Tensor normal(double mean, const Tensor& standard_deviation);
LOCKSTEP_API Tensor normal(double mean, double standard_deviation, const Shape& sizes,
                           const TensorOptions& options = {});

/// int64 [count] or [rows, count]: `count` indices into each row, drawn with the row's weights, which need not sum to
/// 1. weights: [n] or [rows, n], floating. Each index occurs at most once, unless `replacement`. The host waits for the
/// device. Throws InvalidArgument for weights that are negative or not finite, and for rows with too few nonzero
/// weights.
LOCKSTEP_API Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement = false);

}  // namespace lockstep
