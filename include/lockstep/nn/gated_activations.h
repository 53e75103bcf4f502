// Activations as modules that hold a weight, draw random numbers or look at more than one element. What each computes
// says the function of its name in lockstep/ops/activation.h and softmax.h. The others are in activations.h.
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
  double init = 0.25;         ///< What the weight holds at first.
  TensorOptions tensor = {};  ///< Device and dtype of the weight.
};

/// With a slope that is trained, or one for each channel. weight: [count].
class LOCKSTEP_API PReLU : public Module<PReLU> {
 public:
  /// count: 1, or the size of dimension 1 of what the layer will see. Below 1: InvalidArgument.
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

/// Over the channels of [batch, channels, height, width] or of [channels, height, width].
struct LOCKSTEP_API Softmax2d : Module<Softmax2d> {
  /// Throws ShapeError for another rank.
  Tensor forward(const Tensor& x) const;
};

}  // namespace lockstep::nn
