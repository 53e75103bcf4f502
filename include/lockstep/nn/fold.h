// Unfold and Fold as layers. The functions of the same names in lockstep/ops/fold.h document them.
#pragma once

#include <lockstep/nn/module.h>
#include <lockstep/ops/fold.h>

namespace lockstep::nn {

struct LOCKSTEP_API Unfold : Module<Unfold> {
  explicit Unfold(const PerDimension& size, const FoldOptions& how = {}) : kernel_size(size), options(how) {}
  PerDimension kernel_size;
  FoldOptions options;
  Tensor forward(const Tensor& x) const { return unfold(x, kernel_size, options); }
};

struct LOCKSTEP_API Fold : Module<Fold> {
  Fold(const Shape& images, const PerDimension& size, const FoldOptions& how = {})
      : output_size(images), kernel_size(size), options(how) {}
  Shape output_size;
  PerDimension kernel_size;
  FoldOptions options;
  Tensor forward(const Tensor& x) const { return fold(x, output_size, kernel_size, options); }
};

}  // namespace lockstep::nn
