#include <lockstep/nn/gated_activations.h>

#include <lockstep/tensor/creation.h>

#include "core/text.h"

namespace lockstep::nn {

PReLU::PReLU(std::int64_t count, const PReLUOptions& options) {
  if (count < 1) throw InvalidArgument(text("[PReLU] expected a count of at least 1, got ", count));
  weight = Parameter(
      full({count}, options.init, {.dtype = options.tensor.dtype.value_or(kFloat32), .device = options.tensor.device}));
}

Tensor Softmax2d::forward(const Tensor& x) const {
  if (x.dim() != 3 && x.dim() != 4)
    throw ShapeError(
        text("[Softmax2d] expected x [batch, channels, height, width] or [channels, height, width], got ", x.sizes()));
  return softmax(x, -3);
}

}  // namespace lockstep::nn
