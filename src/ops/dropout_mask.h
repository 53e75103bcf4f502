// Which elements dropout() drops, for it and for fused operations that include it.
#pragma once

#include <cstdint>

#include <lockstep/tensor/batch_shard.h>
#include <lockstep/tensor/tensor.h>

#include "tensor/replay_values.h"

namespace lockstep {

/// Word i % 4 of Philox block i / 4 decides about element i of the whole batch.
struct DropoutMask {
  RandomStart start;
  BatchPlace place;
  std::uint64_t threshold = 0;  ///< Drops elements with smaller words.
  double scale = 1;             ///< The factor of kept elements.
};

/// The mask for probability p (greater than 0, at most 1) of a tensor of these sizes, without random numbers.
DropoutMask dropout_mask(double p, const Shape& sizes);

/// A mask with its random numbers.
struct DropoutDraw {
  DropoutMask mask;
  Tensor memory;  ///< The memory that mask.start reads; may be undefined.
};

/// Draws random numbers for the mask, as dropout() does.
DropoutDraw draw_dropout(DeviceState& device, const DropoutMask& mask);

/// x times the mask. x has the elements of the mask's tensor, in row-major order, and any shape. Differentiable.
Tensor apply_dropout(const Tensor& x, const DropoutDraw& draw);

}  // namespace lockstep
