#include <lockstep/nn/pairs.h>

#include "core/text.h"
#include "nn/layer_parameters.h"

namespace lockstep::nn {

Bilinear::Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
                   const BilinearOptions& options) {
  if (in1_features < 1 || in2_features < 1 || out_features < 1)
    throw InvalidArgument(
        text("[Bilinear] expected sizes of at least 1, got ", in1_features, ", ", in2_features, " and ", out_features));
  const double fan_in = double(in1_features);
  weight = uniform_parameter({out_features, in1_features, in2_features}, fan_in, options.tensor);
  if (options.bias) bias = uniform_parameter({out_features}, fan_in, options.tensor);
}

}  // namespace lockstep::nn
