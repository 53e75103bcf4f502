// Computes the windows of a pooling from its options.
#pragma once

#include <optional>

#include <lockstep/ops/per_dimension.h>

#include "ops/window/planes.h"

namespace lockstep {

struct PoolWindow {
  const PerDimension& size;
  const std::optional<PerDimension>& stride;
  PerDimension padding = 0;
  PerDimension dilation = 1;
  bool ceil_mode = false;
};

/// The windows over images x with `dims` spatial dimensions. Throws ShapeError for windows that do not fit, and
/// InvalidArgument for padding above half of a window.
SpatialTaps pool_taps(const char* op, const Tensor& x, int dims, const PoolWindow& window);

/// The windows of adaptive pooling to output_size, in which -1 keeps a size.
SpatialTaps adaptive_taps(const char* op, const Tensor& x, int dims, const PerDimension& output_size);

}  // namespace lockstep
