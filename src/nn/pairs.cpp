#include <lockstep/nn/pairs.h>

#include <cmath>

#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "core/text.h"

namespace lockstep::nn {

Bilinear::Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
                   const BilinearOptions& options) {
  if (in1_features < 1 || in2_features < 1 || out_features < 1)
    throw InvalidArgument(
        text("[Bilinear] expected sizes of at least 1, got ", in1_features, ", ", in2_features, " and ", out_features));
  const double bound = 1 / std::sqrt(double(in1_features));
  const auto uniform = [&](const Shape& sizes) {
    Tensor value = empty(sizes, {.dtype = options.tensor.dtype, .device = options.tensor.device});
    return Parameter(uniform_(value, -bound, bound));
  };
  weight = uniform({out_features, in1_features, in2_features});
  if (options.bias) bias.emplace(uniform({out_features}));
}

}  // namespace lockstep::nn
