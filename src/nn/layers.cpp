#include <lockstep/nn/layers.h>

#include <cmath>

#include <lockstep/ops/dropout.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "core/text.h"

namespace lockstep::nn {
namespace {

void check_features(const char* layer, std::int64_t in, std::int64_t out) {
  if (in < 0 || out < 0)
    throw InvalidArgument(text("[", layer, "] expected sizes of at least 0, got ", in, " and ", out));
}

Parameter uniform_parameter(const Shape& sizes, std::int64_t in_features, const TensorOptions& options) {
  const double bound = in_features > 0 ? 1 / std::sqrt(double(in_features)) : 0;
  Tensor value = empty(sizes, {.dtype = options.dtype, .device = options.device});
  if (bound > 0)
    uniform_(value, -bound, bound);
  else
    value.zero_();
  return Parameter(value);
}

}  // namespace

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options) {
  check_features("Linear", in_features, out_features);
  weight = uniform_parameter({out_features, in_features}, in_features, options.tensor);
  if (options.bias) bias = uniform_parameter({out_features}, in_features, options.tensor);
}

Tensor Linear::forward(const Tensor& x) const { return linear(x, weight, bias ? Tensor(*bias) : Tensor()); }

LazyLinear::LazyLinear(std::int64_t out_features, const LinearOptions& options)
    : weight(Parameter::lazy({out_features, -1})), out_features_(out_features) {
  check_features("LazyLinear", 0, out_features);
  if (options.bias) bias = Parameter::lazy({out_features});
}

Tensor LazyLinear::forward(const Tensor& x) {
  if (!weight.defined()) {
    if (x.dim() < 1) throw ShapeError(text("[LazyLinear] expected x [..., in], got ", x.sizes()));
    const TensorOptions like = {.dtype = x.dtype(), .device = x.device()};
    weight = uniform_parameter({out_features_, x.sizes().back()}, x.sizes().back(), like);
    if (bias) *bias = uniform_parameter({out_features_}, x.sizes().back(), like);
  }
  return linear(x, weight, bias ? Tensor(*bias) : Tensor());
}

Embedding::Embedding(std::int64_t count, std::int64_t features, const EmbeddingOptions& options)
    : padding_index_(options.padding_index) {
  check_features("Embedding", count, features);
  if (padding_index_ && (*padding_index_ < -count || *padding_index_ >= count))
    throw InvalidArgument(
        text("[Embedding] expected a padding index in [", -count, ", ", count, "), got ", *padding_index_));
  Tensor value = randn({count, features}, {.dtype = options.tensor.dtype, .device = options.tensor.device});
  if (padding_index_) value.select(0, *padding_index_).zero_();
  weight = Parameter(value);
}

Tensor Embedding::forward(const Tensor& index) const { return embedding(weight, index, padding_index_); }

Dropout::Dropout(double probability) : p(probability) {
  if (!(p >= 0 && p <= 1)) throw InvalidArgument(text("[Dropout] expected a probability from 0 to 1, got ", p));
}

Tensor Dropout::forward(const Tensor& x) const { return dropout(x, p, is_training()); }

Tensor Flatten::forward(const Tensor& x) const { return x.flatten(start_dim_, end_dim_); }

}  // namespace lockstep::nn
