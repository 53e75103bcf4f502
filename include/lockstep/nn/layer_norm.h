// Layers that normalize each sample on its own, so that results do not depend on the number of devices.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/nn/module.h>
#include <lockstep/ops/normalization.h>

namespace lockstep::nn {

struct NormOptions {
  double eps = 1e-5;
  bool affine = true;         ///< If true, the layer has a weight, initially 1, and a bias, initially 0.
  bool bias = true;           ///< If false, the layer has no bias.
  TensorOptions tensor = {};  ///< Device and dtype.
};

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions. Their sizes must be `normalized`, which
/// is also the shape of weight and bias (Ba, Kiros, Hinton 2016).
class LOCKSTEP_API LayerNorm : public Module<LayerNorm> {
 public:
  /// Throws ShapeError for no dimension or a negative size.
  explicit LayerNorm(const Shape& normalized, const NormOptions& options = {});
  /// Normalizes over the last dimension.
  explicit LayerNorm(std::int64_t size, const NormOptions& options = {}) : LayerNorm(Shape(size), options) {}
  LOCKSTEP_COPIED_IF_ASKED(LayerNorm);

  /// Nullopt if the layer is not affine.
  std::optional<Parameter> weight, bias;

  auto members() { return nn::members("weight", weight, "bias", bias, "eps", eps_); }
  void pretty_print(std::ostream& out) const override;
  Tensor forward(const Tensor& x) const;
  /// A residual connection and this norm behind it: x + branch, and the result of a call with that sum. One kernel, as
  /// add_layer_norm(); two operations if the layer has forward hooks, which get the sum and the norm.
  SumAndNorm after_add(const Tensor& x, const Tensor& branch);

 private:
  Shape normalized_;
  double eps_;
};

struct RMSNormOptions {
  std::optional<double> eps = {};  ///< By default the machine epsilon of the dtype in which it computes.
  bool affine = true;              ///< If true, the layer has a weight, initially 1.
  TensorOptions tensor = {};       ///< Device and dtype.
};

/// x / sqrt(mean(x^2) + eps) * weight over the last dimensions. Their sizes must be `normalized`, which is also the
/// shape of weight (Zhang, Sennrich 2019).
class LOCKSTEP_API RMSNorm : public Module<RMSNorm> {
 public:
  /// Throws ShapeError for no dimension or a negative size.
  explicit RMSNorm(const Shape& normalized, const RMSNormOptions& options = {});
  /// Normalizes over the last dimension.
  explicit RMSNorm(std::int64_t size, const RMSNormOptions& options = {}) : RMSNorm(Shape(size), options) {}
  LOCKSTEP_COPIED_IF_ASKED(RMSNorm);

  std::optional<Parameter> weight;

  auto members() { return nn::members("weight", weight, "eps", eps_); }
  Tensor forward(const Tensor& x) const;

 private:
  Shape normalized_;
  std::optional<double> eps_;
};

/// Normalizes as LayerNorm over each of `groups` equal groups of channels. x: [batch, channels, ...]; weight and bias:
/// [channels] (Wu, He 2018).
class LOCKSTEP_API GroupNorm : public Module<GroupNorm> {
 public:
  /// Throws InvalidArgument unless `groups` divides `channels`.
  GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(GroupNorm);

  /// Nullopt if the layer is not affine.
  std::optional<Parameter> weight, bias;

  auto members() { return nn::members("weight", weight, "bias", bias, "groups", groups_, "eps", eps_); }
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t groups_, channels_;
  double eps_;
};

/// Normalizes each element by elements of neighbouring channels: local_response_norm (lockstep/ops/normalization.h).
struct LOCKSTEP_API LocalResponseNorm : Module<LocalResponseNorm> {
  explicit LocalResponseNorm(std::int64_t channels, const LocalResponseOptions& how = {})
      : size(channels), options(how) {}
  std::int64_t size;  ///< See local_response_norm().
  LocalResponseOptions options;
  Tensor forward(const Tensor& x) const { return local_response_norm(x, size, options); }
};

}  // namespace lockstep::nn
