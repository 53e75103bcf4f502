// The plan for one description of a convolution: oneDNN's primitives for pieces of the batch, and the layout of the
// weights. Plans are cached by description. Safe from any thread.
#pragma once

#include <dnnl.hpp>

#include <cstddef>
#include <memory>
#include <optional>

#include "cpu/convolution/fused_convolution.h"
#include "cpu/convolution/pixel_product.h"

namespace lockstep::host {

/// A convolution of some images of the batch.
struct ConvolutionPiece {
  dnnl::primitive primitive;
  dnnl::memory::desc x, weight, bias, y;  ///< In the primitive's layouts; x and y may be gradients.
  std::size_t scratch_bytes = 0;
};

/// A convolution's batch is divided into `pieces`. The shape alone determines their number, so that results do not
/// depend on the number of threads.
struct ConvolutionPlan {
  std::int64_t batch = 0, pieces = 1;
  std::int64_t x_image = 0, y_image = 0;  ///< Elements per image.
  ConvolutionPiece smaller, larger;       ///< The pieces of batch / pieces images, and those of one image more.
  dnnl::memory::desc weight;              ///< The weight in the caller's layout, row-major.
  dnnl::reorder to_weight;                ///< Converts between the caller's and the primitives' layout if `reorders`.
  bool reorders = false;
  std::optional<PixelProduct> product;  ///< Replaces the primitives if set.

  std::int64_t first_image(std::int64_t piece) const { return piece * batch / pieces; }
  const ConvolutionPiece& piece(std::int64_t index) const {
    return first_image(index + 1) - first_image(index) == batch / pieces ? smaller : larger;
  }

  ConvolutionParts parts(FusedKind kind) const;
};

/// Returns null if oneDNN does not support the operation, or would be slow at it.
std::shared_ptr<const ConvolutionPlan> convolution_plan(const FusedOp& op);

}  // namespace lockstep::host
