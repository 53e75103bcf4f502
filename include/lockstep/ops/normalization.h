// Normalization: (x - mean) / sqrt(variance + eps), then times weight plus bias, either of which may be undefined.
// Floating dtypes only, else DTypeError. Differentiable, twice too. Throw ShapeError for what does not fit x.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Over the last dimensions, whose sizes are `normalized`, as are those of weight and bias.
LOCKSTEP_API Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight = {},
                               const Tensor& bias = {}, double eps = 1e-5);

/// x / sqrt(mean(x^2) + eps) over the last dimensions, whose sizes are `normalized`, then times weight (Zhang, Sennrich
/// 2019). eps: by default the rounding of the type that is computed in, as in PyTorch.
LOCKSTEP_API Tensor rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight = {},
                             std::optional<double> eps = {});

/// x: [batch, channels, ...]; over each of `groups` equal groups of channels. weight and bias: [channels].
LOCKSTEP_API Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                               double eps = 1e-5);

struct BatchNormOptions {
  bool training = true;   ///< With the statistics of x, else with the running ones.
  double momentum = 0.1;  ///< How much of the running statistics a training step replaces.
  double eps = 1e-5;
};
/// x: [batch, channels, ...]; over all but the channels. All others: [channels]. Training changes the running
/// statistics in place, where they are defined (with the variance of a sample: correction 1), but not for an x without
/// elements; one element for each channel is a ShapeError. Evaluation needs them, else InvalidArgument.
LOCKSTEP_API Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_variance,
                               const Tensor& weight = {}, const Tensor& bias = {},
                               const BatchNormOptions& options = {});

/// As batch_norm, but each channel of each image by itself: the running statistics are means over the batch, and
/// training needs more than one element for each channel of an image. The running statistics may be undefined.
LOCKSTEP_API Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {}, const Tensor& running_variance = {},
                                  const Tensor& weight = {}, const Tensor& bias = {},
                                  const BatchNormOptions& options = {});

struct LocalResponseOptions {
  double alpha = 1e-4, beta = 0.75, k = 1;  ///< See local_response_norm().
};
/// x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta (Krizhevsky et al. 2012): size / 2 channels
/// before, (size - 1) / 2 behind, zeros where there are none. x: [batch, channels, ...], of at least three dimensions.
LOCKSTEP_API Tensor local_response_norm(const Tensor& x, std::int64_t size, const LocalResponseOptions& options = {});

}  // namespace lockstep
