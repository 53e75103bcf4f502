// Activations as modules that hold a weight, draw random numbers or read more than one element. The functions of the
// same names in lockstep/ops/activation.h and softmax.h document them. Other activations: activations.h.
#pragma once

#include <cstdint>

#include <lockstep/nn/module.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/softmax.h>

namespace lockstep::nn {

struct LOCKSTEP_API Threshold : Module<Threshold> {
  Threshold(double above, double otherwise) : threshold(above), value(otherwise) {}
  double threshold, value;  ///< See threshold().
  auto members() { return nn::members("threshold", threshold, "value", value); }
  Tensor forward(const Tensor& x) const { return lockstep::threshold(x, threshold, value); }
};

struct LOCKSTEP_API GLU : Module<GLU> {
  explicit GLU(std::int64_t along = -1) : dim(along) {}
  std::int64_t dim;
  auto members() { return nn::members("dim", dim); }
  Tensor forward(const Tensor& x) const { return glu(x, dim); }
};

struct PReLUOptions {
  double init = 0.25;         ///< Initial value of the weight.
  TensorOptions tensor = {};  ///< Device and dtype of the weight.
};

/// A ReLU with a trained slope for negative x, one for all channels or one for each. weight: [count].
class LOCKSTEP_API PReLU : public Module<PReLU> {
 public:
  /// count: 1, or the size of the inputs' dimension 1. Throws InvalidArgument if count < 1.
  explicit PReLU(std::int64_t count = 1, const PReLUOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(PReLU);

  Parameter weight;

  auto members() { return nn::members("weight", weight); }
  Tensor forward(const Tensor& x) const { return prelu(x, weight); }
};

struct LOCKSTEP_API RReLU : Module<RReLU> {
  explicit RReLU(double least = 1. / 8, double most = 1. / 3) : lower(least), upper(most) {}
  double lower, upper;  ///< See rrelu().
  auto members() { return nn::members("lower", lower, "upper", upper); }
  Tensor forward(const Tensor& x) const {
    return rrelu(x, {.lower = lower, .upper = upper, .training = is_training()});
  }
};

struct LOCKSTEP_API Softmin : Module<Softmin> {
  explicit Softmin(std::int64_t along) : dim(along) {}
  std::int64_t dim;
  auto members() { return nn::members("dim", dim); }
  Tensor forward(const Tensor& x) const { return softmin(x, dim); }
};

/// Softmax over the channels of [batch, channels, height, width] or of [channels, height, width].
struct LOCKSTEP_API Softmax2d : Module<Softmax2d> {
  /// Throws ShapeError unless x has 3 or 4 dimensions.
  Tensor forward(const Tensor& x) const;
};

}  // namespace lockstep::nn
