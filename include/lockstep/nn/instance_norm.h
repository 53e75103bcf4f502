// Instance normalization layers (Ulyanov, Vedaldi, Lempitsky 2016). Copies are explicit: copy(layer).
#pragma once

#include <cstdint>

#include <lockstep/nn/batch_norm.h>

namespace lockstep::nn {

struct InstanceNormLayerOptions {
  double eps = 1e-5;
  double momentum = 0.1;             ///< Fraction of the running statistics that a training step replaces.
  bool affine = false;               ///< If true, the layer has a weight, initially 1, and a bias, initially 0.
  bool track_running_stats = false;  ///< If false, evaluation also uses the statistics of each image.
  TensorOptions tensor = {};         ///< Device and dtype.
};

/// instance_norm: normalizes each channel of each image by its own statistics. x: [batch, features, spatial...], or
/// [features, spatial...] without a batch, with kDims spatial dimensions.
template <int kDims>
class InstanceNorm : public Module<InstanceNorm<kDims>>, public BatchNormState {
  static constexpr const char* kNames[] = {"InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"};

 public:
  explicit InstanceNorm(std::int64_t features, const InstanceNormLayerOptions& options = {})
      : BatchNormState(kNames[kDims - 1], {kDims + 2, kDims + 2}, features,
                       {options.eps, options.momentum, options.affine, options.track_running_stats, options.tensor},
                       BufferSync::mean) {}
  LOCKSTEP_COPIED_IF_ASKED(InstanceNorm);
  Tensor forward(const Tensor& x) {
    if (x.dim() != kDims + 1) return normalize(&instance_norm, x, this->is_training());
    return normalize(&instance_norm, x.unsqueeze(0), this->is_training()).squeeze(0);
  }
};

using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;

}  // namespace lockstep::nn
