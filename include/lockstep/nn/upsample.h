// Resizing of images as layers: nn::Upsample({.scale_factor = 2}). interpolate() in lockstep/ops/interpolate.h
// documents the options.
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

/// An Upsample with a fixed mode: UpsamplingNearest2d({.scale_factor = 2}) overrides the mode in its options.
struct LOCKSTEP_API UpsamplingNearest2d : Module<UpsamplingNearest2d> {
  explicit UpsamplingNearest2d(InterpolateOptions how) : options(std::move(how)) {
    options.mode = Interpolation::nearest;
  }
  InterpolateOptions options;
  auto members() { return nn::members(); }
  Tensor forward(const Tensor& x) const { return interpolate(x, options); }
};
/// A bilinear Upsample with aligned corners.
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
