// Dropout layers beyond Dropout, which call the functions in lockstep/ops/dropout.h. In training they drop the same
// elements for any number of devices. In evaluation they return their input.
#pragma once

#include <lockstep/nn/module.h>
#include <lockstep/ops/dropout.h>

namespace lockstep::nn {

namespace detail {

/// Throws InvalidArgument naming the layer unless 0 <= p <= 1.
LOCKSTEP_API double checked_probability(const char* layer, double p);
/// Throws ShapeError naming the layer unless x has `rank` dimensions, or `rank` - 1 for a single sample.
LOCKSTEP_API Tensor dropped_channels(const char* layer, const Tensor& x, int rank, double p, bool training);

}  // namespace detail

/// Drops whole channels. x: [batch, channels, length], or one sample without the batch dimension.
struct LOCKSTEP_API Dropout1d : Module<Dropout1d> {
  explicit Dropout1d(double share = 0.5) : p(detail::checked_probability("Dropout1d", share)) {}
  double p;
  auto members() { return nn::members("p", p); }
  Tensor forward(const Tensor& x) const { return detail::dropped_channels("Dropout1d", x, 3, p, is_training()); }
};

/// Drops whole channels. x: [batch, channels, height, width], or one sample without the batch dimension.
struct LOCKSTEP_API Dropout2d : Module<Dropout2d> {
  explicit Dropout2d(double share = 0.5) : p(detail::checked_probability("Dropout2d", share)) {}
  double p;
  auto members() { return nn::members("p", p); }
  Tensor forward(const Tensor& x) const { return detail::dropped_channels("Dropout2d", x, 4, p, is_training()); }
};

/// Drops whole channels. x: [batch, channels, depth, height, width], or one sample without the batch dimension.
struct LOCKSTEP_API Dropout3d : Module<Dropout3d> {
  explicit Dropout3d(double share = 0.5) : p(detail::checked_probability("Dropout3d", share)) {}
  double p;
  auto members() { return nn::members("p", p); }
  Tensor forward(const Tensor& x) const { return detail::dropped_channels("Dropout3d", x, 5, p, is_training()); }
};

struct LOCKSTEP_API AlphaDropout : Module<AlphaDropout> {
  explicit AlphaDropout(double share = 0.5) : p(detail::checked_probability("AlphaDropout", share)) {}
  double p;
  auto members() { return nn::members("p", p); }
  Tensor forward(const Tensor& x) const { return alpha_dropout(x, p, is_training()); }
};

struct LOCKSTEP_API FeatureAlphaDropout : Module<FeatureAlphaDropout> {
  explicit FeatureAlphaDropout(double share = 0.5) : p(detail::checked_probability("FeatureAlphaDropout", share)) {}
  double p;
  auto members() { return nn::members("p", p); }
  Tensor forward(const Tensor& x) const { return feature_alpha_dropout(x, p, is_training()); }
};

}  // namespace lockstep::nn
