#include <lockstep/nn/attention.h>

#include <cmath>
#include <limits>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/init.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/attention.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/tensor/batch_shard.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "nn/layer_parameters.h"

namespace lockstep::nn {
namespace {

constexpr const char* kLayer = "MultiheadAttention";
constexpr double kBlocked = -std::numeric_limits<double>::infinity();

Parameter drawn(decltype(&init::xavier_uniform_) draw, const Shape& sizes, const TensorOptions& options) {
  Tensor weight = empty(sizes, options);
  draw(weight, 1);
  return Parameter(weight);
}

Tensor part(const Tensor& whole, std::int64_t which, std::int64_t length) {
  return whole.defined() ? whole.narrow(0, which * length, length) : whole;
}

// Converts a mask to one that is added to the scores.
Tensor added(const char* name, const Tensor& mask, const Tensor& like) {
  if (mask.dtype() == like.dtype()) return mask;
  if (mask.dtype() != kBool)
    throw DTypeError(text("[", kLayer, "] expected ", name, " of bool or ", like.dtype(), ", got ", mask.dtype()));
  const TensorOptions options = {.dtype = like.dtype(), .device = mask.device()};
  return where(mask, full({}, kBlocked, options), zeros({}, options));
}

Tensor causal_mask(std::int64_t queries, std::int64_t keys, const Tensor& like) {
  return triu(full({queries, keys}, kBlocked, like.options()), 1);
}

// Joins the masks of a call into one that broadcasts to [batch, heads, queries, keys]. Returns an undefined Tensor if
// the call has no mask, or if is_causal is its only mask and needs_causal is false.
Tensor joined_mask(const AttentionCall& call, const Shape& scores, const Tensor& like, bool needs_causal) {
  const std::int64_t batch = scores[0], heads = scores[1], queries = scores[2], keys = scores[3];
  Tensor mask;
  if (call.attn_mask.defined()) {
    const Tensor& given = call.attn_mask;
    if (given.sizes() != Shape{queries, keys} && given.sizes() != Shape{batch * heads, queries, keys})
      throw ShapeError(text("[", kLayer, "] expected attn_mask ", Shape{queries, keys}, " or ",
                            Shape{batch * heads, queries, keys}, ", got ", given.sizes()));
    mask = added("attn_mask", given, like);
    mask = given.dim() == 3 ? mask.reshape(scores) : mask.unsqueeze(0).unsqueeze(0);
  } else if (call.is_causal && needs_causal) {
    mask = causal_mask(queries, keys, like).unsqueeze(0).unsqueeze(0);
  }
  if (call.key_padding_mask.defined()) {
    const Tensor given = call.key_padding_mask.dim() == 1 ? call.key_padding_mask.unsqueeze(0) : call.key_padding_mask;
    if (given.sizes() != Shape{batch, keys})
      throw ShapeError(text("[", kLayer, "] expected key_padding_mask ", Shape{batch, keys}, ", got ", given.sizes()));
    const Tensor padding = added("key_padding_mask", given, like).unsqueeze(1).unsqueeze(1);
    mask = mask.defined() ? mask + padding : padding;
  }
  return mask;
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : out_proj(embed_dim, embed_dim, {.bias = options.bias, .tensor = options.tensor}),
      embed_dim_(embed_dim),
      heads_(num_heads),
      dropout_(options.dropout),
      zero_attention_(options.add_zero_attn),
      batch_first_(options.batch_first) {
  if (num_heads < 1 || embed_dim < 1 || embed_dim % num_heads != 0)
    throw InvalidArgument(text("[", kLayer, "] expected heads that divide the features, got ", num_heads, " heads of ",
                               embed_dim, " features"));
  if (!(dropout_ >= 0 && dropout_ <= 1))
    throw InvalidArgument(text("[", kLayer, "] expected a dropout from 0 to 1, got ", dropout_));
  const std::int64_t keys = options.kdim.value_or(embed_dim), values = options.vdim.value_or(embed_dim);
  const TensorOptions like = {.dtype = options.tensor.dtype, .device = options.tensor.device};
  if (keys == embed_dim && values == embed_dim) {
    in_proj_weight = drawn(init::xavier_uniform_, {3 * embed_dim, embed_dim}, like);
  } else {
    q_proj_weight = drawn(init::xavier_uniform_, {embed_dim, embed_dim}, like);
    k_proj_weight = drawn(init::xavier_uniform_, {embed_dim, keys}, like);
    v_proj_weight = drawn(init::xavier_uniform_, {embed_dim, values}, like);
  }
  if (options.bias) {
    in_proj_bias.emplace(zeros({3 * embed_dim}, like));
    const NoGrad guard;
    out_proj.bias->zero_();
  }
  if (options.add_bias_kv) {
    bias_k = drawn(init::xavier_normal_, {1, 1, embed_dim}, like);
    bias_v = drawn(init::xavier_normal_, {1, 1, embed_dim}, like);
  }
}

// Projects query, key and value. If all three are the same tensor, or key and value are, one matrix product projects
// them together.
MultiheadAttention::Projected MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                          const Tensor& value) const {
  const std::int64_t width = embed_dim_ / heads_;
  const Tensor bias = tensor_or_none(in_proj_bias);
  // [a, b, parts * features] -> `parts` of [batch, heads, length, width]
  const auto by_head = [&](const Tensor& x, std::int64_t parts) {
    std::vector<Tensor> heads = unbind(x.view({x.size(0), x.size(1), parts, heads_, width}), 2);
    for (Tensor& head : heads) head = head.permute(batch_first_ ? Shape{0, 2, 1, 3} : Shape{1, 2, 0, 3});
    return heads;
  };
  if (!in_proj_weight)
    return {by_head(linear(query, *q_proj_weight, part(bias, 0, embed_dim_)), 1)[0],
            by_head(linear(key, *k_proj_weight, part(bias, 1, embed_dim_)), 1)[0],
            by_head(linear(value, *v_proj_weight, part(bias, 2, embed_dim_)), 1)[0]};
  const Tensor weight = *in_proj_weight;
  if (query.is_same(key) && key.is_same(value)) {
    const std::vector<Tensor> all = by_head(linear(query, weight, bias), 3);
    return {all[0], all[1], all[2]};
  }
  const std::vector<std::int64_t> sizes = {embed_dim_, 2 * embed_dim_};
  const std::vector<Tensor> weights = split(weight, sizes),
                            biases = bias.defined() ? split(bias, sizes) : std::vector<Tensor>(2);
  const Tensor q = by_head(linear(query, weights[0], biases[0]), 1)[0];
  if (key.is_same(value)) {
    const std::vector<Tensor> both = by_head(linear(key, weights[1], biases[1]), 2);
    return {q, both[0], both[1]};
  }
  const std::vector<Tensor> two = chunk(weights[1], 2);
  return {q, by_head(linear(key, two[0], part(biases[1], 0, embed_dim_)), 1)[0],
          by_head(linear(value, two[1], part(biases[1], 1, embed_dim_)), 1)[0]};
}

// Appends keys and values (bias_kv, zero_attn) that every query attends to.
void MultiheadAttention::extend(Projected& heads, Tensor& mask) const {
  const std::int64_t batch = heads.key.size(0), width = embed_dim_ / heads_;
  const auto append = [&](const Tensor& key, const Tensor& value) {
    heads.key = cat({heads.key, key}, 2);
    heads.value = cat({heads.value, value}, 2);
    if (mask.defined()) mask = pad(mask, {0, 1});
  };
  const auto repeated = [&](const Tensor& bias) {
    return bias.view({1, heads_, 1, width}).expand({batch, heads_, 1, width});
  };
  if (bias_k) append(repeated(*bias_k), repeated(*bias_v));
  if (!zero_attention_) return;
  const Tensor zero = zeros({batch, heads_, 1, width}, heads.key.options());
  append(zero, zero);
}

AttendedTensors MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                            const AttentionCall& call) {
  const int batch_at = batch_first_ ? 0 : 1, length_at = 1 - batch_at;
  if (query.dim() == 2 && key.dim() == 2 && value.dim() == 2) {
    const Tensor q = query.unsqueeze(batch_at), k = key.is_same(query) ? q : key.unsqueeze(batch_at),
                 v = value.is_same(key) ? k : value.unsqueeze(batch_at);
    const BatchDim none(std::nullopt);
    const AttendedTensors one = forward(q, k, v, call);
    return {one.output.squeeze(batch_at), one.weights.defined() ? one.weights.squeeze(0) : one.weights};
  }
  if (query.dim() != 3 || key.dim() != 3 || value.dim() != 3 || query.size(2) != embed_dim_ ||
      query.size(batch_at) != key.size(batch_at) || key.size(batch_at) != value.size(batch_at) ||
      key.size(length_at) != value.size(length_at))
    throw ShapeError(text("[", kLayer, "] expected query, key and value ",
                          batch_first_ ? "[batch, length, features]" : "[length, batch, features]", " with ",
                          embed_dim_, " features of the query, got ", query.sizes(), ", ", key.sizes(), " and ",
                          value.sizes()));
  Projected heads = project(query, key, value);
  const Shape scores = {query.size(batch_at), heads_, query.size(length_at), key.size(length_at)};
  const bool extended = bias_k || zero_attention_;
  Tensor mask = joined_mask(call, scores, query, extended || call.need_weights || call.key_padding_mask.defined());
  if (extended) extend(heads, mask);

  const double p = is_training() ? dropout_ : 0;
  const BatchDim first(0);
  Tensor attended, weights;  // [batch, heads, queries, ...]
  if (call.need_weights) {
    const double scale = 1 / std::sqrt(double(embed_dim_ / heads_));
    Tensor products = matmul(heads.query * scale, heads.key.transpose(-1, -2));
    if (mask.defined()) products = products + mask;
    weights = dropout(softmax(products, -1), p);
    attended = matmul(weights, heads.value);
    if (call.average_attn_weights) weights = mean(weights, {1});
  } else {
    attended =
        scaled_dot_product_attention(heads.query, heads.key, heads.value,
                                     {.mask = mask, .dropout = p, .is_causal = call.is_causal && !mask.defined()});
  }
  const Tensor joined = attended.permute(batch_first_ ? Shape{0, 2, 1, 3} : Shape{2, 0, 1, 3});
  return {out_proj(joined.reshape(query.sizes())), weights};
}

}  // namespace lockstep::nn
