// Images of another size, as layers: nn::Upsample({.scale_factor = 2}). What its options mean says interpolate() in
// lockstep/ops/interpolate.h.
#pragma once

#include <utility>

#include <lockstep/nn/module.h>
#include <lockstep/ops/interpolate.h>

namespace lockstep::nn {

struct LOCKSTEP_API Upsample : Module<Upsample> {
  explicit Upsample(InterpolateOptions how) : options(std::move(how)) {}
  InterpolateOptions options;
  auto members() { return nn::members(); }
  Tensor forward(const Tensor& x) const { return interpolate(x, options); }
};

/// An Upsample of that mode: UpsamplingNearest2d({.scale_factor = 2}), whatever mode its options say.
struct LOCKSTEP_API UpsamplingNearest2d : Module<UpsamplingNearest2d> {
  explicit UpsamplingNearest2d(InterpolateOptions how) : options(std::move(how)) {
    options.mode = Interpolation::nearest;
  }
  InterpolateOptions options;
  auto members() { return nn::members(); }
  Tensor forward(const Tensor& x) const { return interpolate(x, options); }
};
/// With corners aligned.
struct LOCKSTEP_API UpsamplingBilinear2d : Module<UpsamplingBilinear2d> {
  explicit UpsamplingBilinear2d(InterpolateOptions how) : options(std::move(how)) {
    options.mode = Interpolation::bilinear;
    options.align_corners = true;
  }
  InterpolateOptions options;
  auto members() { return nn::members(); }
  Tensor forward(const Tensor& x) const { return interpolate(x, options); }
};

}  // namespace lockstep::nn
