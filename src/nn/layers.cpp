#include <lockstep/nn/layers.h>

#include <ostream>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/dropout.h>
#include <lockstep/nn/functional.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/indexing.h>

#include "autograd/meta.h"
#include "autograd/replicated_parameter.h"
#include "core/text.h"
#include "nn/layer_parameters.h"

namespace lockstep::nn {
namespace {

void check_features(const char* layer, std::int64_t in, std::int64_t out) {
  if (in < 0 || out < 0)
    throw InvalidArgument(text("[", layer, "] expected sizes of at least 0, got ", in, " and ", out));
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& options) : in_features(in), out_features(out) {
  check_features("Linear", in, out);
  weight = uniform_parameter({out, in}, double(in), options.tensor);
  if (options.bias) bias = uniform_parameter({out}, double(in), options.tensor);
}

Tensor Linear::forward(const Tensor& x) const { return linear(x, weight, tensor_or_none(bias)); }

LazyLinear::LazyLinear(std::int64_t out_features, const LinearOptions& options)
    : weight(Parameter::lazy({out_features, -1})), out_features_(out_features) {
  check_features("LazyLinear", 0, out_features);
  if (options.bias) bias = Parameter::lazy({out_features});
}

Tensor LazyLinear::forward(const Tensor& x) {
  if (!weight.defined()) {
    if (x.dim() < 1) throw ShapeError(text("[LazyLinear] expected x [..., in], got ", x.sizes()));
    const TensorOptions like = x.options();
    const std::int64_t in = x.sizes().back();
    weight = uniform_parameter({out_features_, in}, double(in), like);
    if (bias) *bias = uniform_parameter({out_features_}, double(in), like);
  }
  return linear(x, weight, tensor_or_none(bias));
}

Embedding::Embedding(std::int64_t count, std::int64_t features, const EmbeddingOptions& options)
    : num_embeddings(count),
      embedding_dim(features),
      padding_idx_(options.padding_idx),
      max_norm_(options.max_norm),
      norm_type_(options.norm_type) {
  check_features("Embedding", count, features);
  if (max_norm_ && !(*max_norm_ > 0))
    throw InvalidArgument(text("[Embedding] expected max_norm > 0, got ", *max_norm_));
  if (!(norm_type_ > 0)) throw InvalidArgument(text("[Embedding] expected norm_type > 0, got ", norm_type_));
  if (padding_idx_ && (*padding_idx_ < -count || *padding_idx_ >= count))
    throw InvalidArgument(text("[Embedding] expected padding_idx in [", -count, ", ", count, "), got ", *padding_idx_));
  Tensor value = randn({count, features}, {.dtype = options.tensor.dtype, .device = options.tensor.device});
  if (padding_idx_) value.select(0, *padding_idx_).zero_();
  weight = Parameter(value);
}

Embedding Embedding::from_pretrained(const Tensor& embeddings, const PretrainedOptions& options) {
  if (!embeddings.defined() || embeddings.dim() != 2)
    throw ShapeError(text("[Embedding::from_pretrained] expected a weight [count, features], got ",
                          embeddings.defined() ? text(embeddings.sizes()) : "an undefined tensor"));
  Embedding layer(0, embeddings.size(1));
  layer.weight = Parameter(embeddings.detach().clone(), {.requires_grad = !options.freeze});
  const std::int64_t count = embeddings.size(0);
  const Embedding checked(
      count, 0, {.padding_idx = options.padding_idx, .max_norm = options.max_norm, .norm_type = options.norm_type});
  layer.num_embeddings = count;
  layer.padding_idx_ = checked.padding_idx_;
  layer.max_norm_ = checked.max_norm_;
  layer.norm_type_ = checked.norm_type_;
  return layer;
}

Tensor Embedding::forward(const Tensor& index) const {
  if (max_norm_) {
    if (autograd::replica_of(weight))
      throw InvalidArgument(
          "[Embedding] max_norm is not supported in DataParallel: each replica would rescale different rows of the "
          "weight");
    const NoGrad guard;
    const Tensor places = index.reshape({-1}), rows = weight.detach().index_select(0, places);
    const Tensor norms = norm(rows, norm_type_, {1}, true);
    const Tensor scale = where(norms > *max_norm_, *max_norm_ / (norms + 1e-7), ones_like(norms));
    weight.detach().index_put_({places}, rows * scale);
  }
  return lockstep::embedding(weight, index, padding_idx_);
}

Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFunctionOptions& options) {
  if (input.defined() && is_floating(input.dtype()))
    throw DTypeError(text("[embedding] expected indices first and then the weight, got ", input.dtype(), ' ',
                          input.sizes(), ": call embedding(input, weight)"));
  return lockstep::embedding(weight, input, options.padding_idx);
}

Dropout::Dropout(double probability) : p(detail::checked_probability("Dropout", probability)) {}

Tensor Dropout::forward(const Tensor& x) const { return dropout(x, p, is_training()); }

Tensor Flatten::forward(const Tensor& x) const { return x.flatten(start_dim_, end_dim_); }

Tensor Unflatten::forward(const Tensor& x) const {
  const int dim = wrap_dim("Unflatten", dim_, x.dim());
  const std::int64_t whole = x.sizes()[dim];
  Shape sizes;
  std::int64_t known = 1;
  int unknown = 0;
  bool fits = !sizes_.empty();
  for (const std::int64_t size : sizes_) {
    fits &= size >= -1;
    unknown += size == -1;
    if (size >= 0) fits &= !__builtin_mul_overflow(known, size, &known);
  }
  fits &= unknown == 0 ? known == whole : unknown == 1 && known > 0 && whole % known == 0;
  if (!fits)
    throw ShapeError(text("[Unflatten] expected sizes whose product is dimension ", dim, " of ", x.sizes(),
                          ", or one of them -1, got ", sizes_));
  for (int d = 0; d < x.dim(); ++d) {
    if (d != dim) {
      sizes.push_back(x.sizes()[d]);
      continue;
    }
    for (const std::int64_t size : sizes_) sizes.push_back(size == -1 ? whole / known : size);
  }
  return x.reshape(sizes);
}

void Linear::pretty_print(std::ostream& out) const {
  detail::OwnLine line(out, typeid(*this));
  line.setting("in_features", weight.size(1));
  line.setting("out_features", weight.size(0));
  line.setting("bias", bias.has_value());
}

void Embedding::pretty_print(std::ostream& out) const {
  out << "Embedding(" << weight.size(0) << ", " << weight.size(1);
  if (padding_idx_) out << ", padding_idx=" << *padding_idx_;
  out << ')';
}

void Flatten::pretty_print(std::ostream& out) const {
  detail::OwnLine line(out, typeid(*this));
  line.setting("start_dim", start_dim_);
  line.setting("end_dim", end_dim_);
}

}  // namespace lockstep::nn
