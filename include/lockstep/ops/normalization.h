// Normalization: (x - mean) / sqrt(variance + eps), times weight, plus bias; weight and bias may be undefined. Floating
// dtypes only, else DTypeError. Twice differentiable. Throw ShapeError for operands that do not fit x.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Normalizes over the last dimensions, whose sizes are `normalized`. weight and bias have those sizes.
LOCKSTEP_API Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight = {},
                               const Tensor& bias = {}, double eps = 1e-5);

/// The results of add_layer_norm().
struct SumAndNorm {
  Tensor sum;   ///< x + branch.
  Tensor norm;  ///< layer_norm(sum).
};
/// A residual connection and the norm behind it: x + branch, and its layer_norm(). One kernel, if x is float32 and
/// branch and weights are too, or in autocast regions: x of float32 or the region's dtype, branch of the region's
/// dtype. Else two operations, which give the same up to rounding. One node of the graph then has both results, and
/// computes only the sum's whole gradient: hooks on the sum, retain_grad() and gradients() with regard to it throw
/// AutogradError.
LOCKSTEP_API SumAndNorm add_layer_norm(const Tensor& x, const Tensor& branch, const Shape& normalized,
                                       const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

/// x / sqrt(mean(x^2) + eps) over the last dimensions, whose sizes are `normalized`, then times weight (Zhang, Sennrich
/// 2019). eps defaults to the machine epsilon of the compute type, as in PyTorch.
LOCKSTEP_API Tensor rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight = {},
                             std::optional<double> eps = {});

/// Normalizes each of `groups` equal groups of channels of x [batch, channels, ...]. weight and bias: [channels].
LOCKSTEP_API Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                               double eps = 1e-5);

struct BatchNormOptions {
  bool training = true;   ///< true: uses the statistics of x; false: uses the running statistics.
  double momentum = 0.1;  ///< The part of the running statistics that a training step replaces.
  double eps = 1e-5;
};
/// Normalizes each channel of x [batch, channels, ...]. All other tensors: [channels]. Training updates the running
/// statistics in place if they are defined (with the unbiased variance: correction 1) and x is not empty; with one
/// element per channel it throws ShapeError. Evaluation throws InvalidArgument without running statistics.
LOCKSTEP_API Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_variance,
                               const Tensor& weight = {}, const Tensor& bias = {},
                               const BatchNormOptions& options = {});

/// Like batch_norm, but normalizes each channel of each image by itself. The running statistics, which may be
/// undefined, are means over the batch. Training needs more than one element for each channel of an image.
LOCKSTEP_API Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {}, const Tensor& running_variance = {},
                                  const Tensor& weight = {}, const Tensor& bias = {},
                                  const BatchNormOptions& options = {});

struct LocalResponseOptions {
  double alpha = 1e-4, beta = 0.75, k = 1;  ///< See local_response_norm().
};
/// x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta (Krizhevsky et al. 2012): size / 2 channels
/// before, (size - 1) / 2 behind, zeros beyond the ends. x: [batch, channels, ...], of at least three dimensions.
LOCKSTEP_API Tensor local_response_norm(const Tensor& x, std::int64_t size, const LocalResponseOptions& options = {});

}  // namespace lockstep
