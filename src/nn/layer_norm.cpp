#include <lockstep/nn/layer_norm.h>

#include <ostream>
#include <utility>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "nn/layer_parameters.h"

namespace lockstep::nn {
namespace {

void make_affine(std::optional<Parameter>& weight, std::optional<Parameter>& bias, const Shape& sizes,
                 const NormOptions& options) {
  const TensorOptions like = {.dtype = options.tensor.dtype, .device = options.tensor.device};
  if (options.affine) weight.emplace(ones(sizes, like));
  if (options.affine && options.bias) bias.emplace(zeros(sizes, like));
}

void check_normalized(const char* layer, const Shape& normalized) {
  if (normalized.rank() == 0) throw ShapeError(text("[", layer, "] expected at least one dimension, got []"));
  for (const std::int64_t size : normalized)
    if (size < 0) throw ShapeError(text("[", layer, "] expected sizes of at least 0, got ", normalized));
}

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized, const NormOptions& options) : normalized_(normalized), eps_(options.eps) {
  check_normalized("LayerNorm", normalized);
  make_affine(weight, bias, normalized, options);
}

Tensor LayerNorm::forward(const Tensor& x) const {
  return layer_norm(x, normalized_, tensor_or_none(weight), tensor_or_none(bias), eps_);
}

SumAndNorm LayerNorm::after_add(const Tensor& x, const Tensor& branch) {
  if (begin_call(*this) || has_forward_hooks()) {
    const Tensor sum = x + branch;
    return {sum, (*this)(sum)};
  }
  return add_layer_norm(x, branch, normalized_, tensor_or_none(weight), tensor_or_none(bias), eps_);
}

RMSNorm::RMSNorm(const Shape& normalized, const RMSNormOptions& options) : normalized_(normalized), eps_(options.eps) {
  check_normalized("RMSNorm", normalized);
  std::optional<Parameter> no_bias;
  make_affine(weight, no_bias, normalized, {.affine = options.affine, .bias = false, .tensor = options.tensor});
}

Tensor RMSNorm::forward(const Tensor& x) const { return rms_norm(x, normalized_, tensor_or_none(weight), eps_); }

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& options)
    : groups_(groups), channels_(channels), eps_(options.eps) {
  if (groups < 1 || channels < 0 || channels % groups != 0)
    throw InvalidArgument(text("[GroupNorm] expected groups that divide the channels, got ", groups, " groups of ",
                               channels, " channels"));
  make_affine(weight, bias, {channels}, options);
}

Tensor GroupNorm::forward(const Tensor& x) const {
  if (x.dim() < 2 || x.size(1) != channels_)
    throw ShapeError(text("[GroupNorm] expected x [batch, ", channels_, ", ...], got ", x.sizes()));
  return group_norm(x, groups_, tensor_or_none(weight), tensor_or_none(bias), eps_);
}

void LayerNorm::pretty_print(std::ostream& out) const {
  detail::OwnLine line(out, typeid(*this));
  const char* separator = "(";
  line.name("normalized_shape");
  for (const std::int64_t size : normalized_) out << std::exchange(separator, ", ") << size;
  out << (normalized_.rank() == 1 ? ",)" : ")");
  line.setting("eps", eps_);
  line.setting("elementwise_affine", weight.has_value());
}

}  // namespace lockstep::nn
