// Padding as layers: nn::ZeroPad2d(1), nn::ReflectionPad2d({1, 1, 2, 0}). The padding is one number for all sides, or
// two for each spatial dimension, beginning with the last (left, right, top, bottom, front, back); negative numbers
// cut. PadMode in lockstep/ops/layout.h documents the modes.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/ops/layout.h>

namespace lockstep::nn {

/// The state of padding layers.
class LOCKSTEP_API PadState {
 public:
  const std::vector<std::int64_t>& padding() const noexcept { return padding_; }  ///< As given.
  auto members() { return lockstep::members(); }

 protected:
  PadState(int dims, std::int64_t all, const PaddingOptions& options);
  /// Throws ShapeError unless there are two numbers for each of `dims` dimensions.
  PadState(int dims, std::vector<std::int64_t> each, const PaddingOptions& options);
  /// x: [N, C, spatial...] or [C, spatial...], else ShapeError; PadMode::constant accepts any number of leading
  /// dimensions.
  Tensor padded(const Tensor& x) const;

 private:
  int dims_;
  std::vector<std::int64_t> padding_;
  PaddingOptions options_;
};

template <int kDims>
class LOCKSTEP_API ConstantPad : public Module<ConstantPad<kDims>>, public PadState {
 public:
  ConstantPad(std::int64_t padding, double value) : PadState(kDims, padding, {.value = value}) {}
  ConstantPad(const std::vector<std::int64_t>& padding, double value) : PadState(kDims, padding, {.value = value}) {}
  Tensor forward(const Tensor& x) const { return padded(x); }
};

/// The layers that have a mode and no value.
template <int kDims, PadMode kMode>
class LOCKSTEP_API PadLayer : public Module<PadLayer<kDims, kMode>>, public PadState {
 public:
  explicit PadLayer(std::int64_t padding) : PadState(kDims, padding, {.mode = kMode}) {}
  explicit PadLayer(const std::vector<std::int64_t>& padding) : PadState(kDims, padding, {.mode = kMode}) {}
  Tensor forward(const Tensor& x) const { return padded(x); }
};

using ConstantPad1d = ConstantPad<1>;
using ConstantPad2d = ConstantPad<2>;
using ConstantPad3d = ConstantPad<3>;
using ZeroPad1d = PadLayer<1, PadMode::constant>;
using ZeroPad2d = PadLayer<2, PadMode::constant>;
using ZeroPad3d = PadLayer<3, PadMode::constant>;
using ReflectionPad1d = PadLayer<1, PadMode::reflect>;
using ReflectionPad2d = PadLayer<2, PadMode::reflect>;
using ReflectionPad3d = PadLayer<3, PadMode::reflect>;
using ReplicationPad1d = PadLayer<1, PadMode::replicate>;
using ReplicationPad2d = PadLayer<2, PadMode::replicate>;
using ReplicationPad3d = PadLayer<3, PadMode::replicate>;
using CircularPad1d = PadLayer<1, PadMode::circular>;
using CircularPad2d = PadLayer<2, PadMode::circular>;
using CircularPad3d = PadLayer<3, PadMode::circular>;

}  // namespace lockstep::nn
