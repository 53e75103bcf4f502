// Functions that losses share.
#pragma once

#include <lockstep/ops/loss.h>

#include "ops/elementwise.h"

namespace lockstep {

inline Tensor reduced(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean: return mean(losses);
    case Reduction::sum: return sum(losses);
    case Reduction::batchmean: return sum(losses) / double(losses.dim() ? losses.sizes()[0] : 1);
    case Reduction::none: break;
  }
  return losses;
}

/// Throws DeviceMismatch or ShapeError naming `op`.
inline void check_target(const char* op, const Tensor& input, const Tensor& target) {
  check_same_device(op, input, target);
  if (input.sizes() != target.sizes())
    throw ShapeError(text("[", op, "] expected a target of shape ", input.sizes(), ", got ", target.sizes()));
}

/// A loss that is computed element by element: f as in binary().
template <class F>
Tensor pointwise_loss(const char* op, const char* node, const Tensor& input, const Tensor& target, const F& f) {
  check_target(op, input, target);
  return binary(op, node, input, target, f);
}

}  // namespace lockstep
