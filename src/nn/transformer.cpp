#include <lockstep/nn/transformer.h>

#include <limits>
#include <optional>
#include <string_view>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/init.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/layout.h>
#include <lockstep/tensor/batch_shard.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "nn/layer_parameters.h"
#include "ops/linear.h"

namespace lockstep::nn {
namespace {

MultiheadAttention attention_of(std::int64_t features, std::int64_t heads, const TransformerLayerOptions& options) {
  return MultiheadAttention(
      features, heads,
      {.dropout = options.dropout, .bias = options.bias, .batch_first = options.batch_first, .tensor = options.tensor});
}

LayerNorm norm_of(std::int64_t features, const TransformerLayerOptions& options) {
  return LayerNorm(features, {.eps = options.layer_norm_eps, .bias = options.bias, .tensor = options.tensor});
}

LinearOptions linear_options(const TransformerLayerOptions& options) {
  return {.bias = options.bias, .tensor = options.tensor};
}

// The batch dimension of x: [batch, length, features], or [length, batch, features], or none in a single sample.
std::optional<std::int64_t> batch_dim_of(const Tensor& x, bool batch_first) {
  if (x.dim() != 3) return std::nullopt;
  return batch_first ? 0 : 1;
}

// Returns the base object. A std::function constructed from an ActivationFunction would wrap it, and activated() would
// not see that it is relu.
const std::function<Tensor(const Tensor&)>& function_of(const ActivationFunction& activation) { return activation; }

// Returns activation(layer(x)). For relu, linear() fuses both into one operation if gradients are not recorded.
Tensor activated(const Linear& layer, const std::function<Tensor(const Tensor&)>& activation, const Tensor& x) {
  const auto* const plain = activation.target<Tensor (*)(const Tensor&)>();
  if (!plain || *plain != &relu) return activation(layer.forward(x));
  return linear(x, layer.weight, tensor_or_none(layer.bias), Activation::relu);
}

template <class Layer>
std::vector<Layer> copies(const char* stack, Layer layer, std::int64_t count) {
  if (count < 0) throw InvalidArgument(text("[", stack, "] expected at least 0 layers, got ", count));
  std::vector<Layer> layers;
  layers.reserve(std::size_t(count));
  for (std::int64_t i = 1; i < count; ++i) layers.push_back(std::as_const(layer));
  if (count > 0) layers.push_back(std::move(layer));
  return layers;
}

}  // namespace

ActivationFunction::ActivationFunction(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "relu")
    *this = ActivationFunction(relu);
  else if (wanted == "gelu")
    *this = ActivationFunction([](const Tensor& x) { return gelu(x); });
  else
    throw InvalidArgument(
        text("[Transformer] expected the activation \"relu\", \"gelu\" or a function, got \"", wanted, '"'));
}

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : self_attn(attention_of(d_model, nhead, options)),
      linear1(d_model, options.dim_feedforward, linear_options(options)),
      linear2(options.dim_feedforward, d_model, linear_options(options)),
      norm1(norm_of(d_model, options)),
      norm2(norm_of(d_model, options)),
      dropout(options.dropout),
      dropout1(options.dropout),
      dropout2(options.dropout),
      activation_(function_of(options.activation)),
      norm_first_(options.norm_first),
      batch_first_(options.batch_first) {}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const EncoderCall& call) {
  const AttentionCall masks = {.key_padding_mask = call.src_key_padding_mask,
                               .attn_mask = call.src_mask,
                               .need_weights = false,
                               .is_causal = call.is_causal};
  return dropout1(self_attn.forward(x, x, x, masks).output);
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
  return dropout2(linear2(dropout(activated(linear1, activation_, x))));
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const EncoderCall& call) {
  const BatchDim batch(batch_dim_of(src, batch_first_));
  if (norm_first_) {
    const auto [x, normal] = norm2.after_add(src, attend(norm1(src), call));
    return x + feed_forward(normal);
  }
  const Tensor x = norm1.after_add(src, attend(src, call)).norm;
  return norm2.after_add(x, feed_forward(x)).norm;
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : self_attn(attention_of(d_model, nhead, options)),
      multihead_attn(attention_of(d_model, nhead, options)),
      linear1(d_model, options.dim_feedforward, linear_options(options)),
      linear2(options.dim_feedforward, d_model, linear_options(options)),
      norm1(norm_of(d_model, options)),
      norm2(norm_of(d_model, options)),
      norm3(norm_of(d_model, options)),
      dropout(options.dropout),
      dropout1(options.dropout),
      dropout2(options.dropout),
      dropout3(options.dropout),
      activation_(function_of(options.activation)),
      norm_first_(options.norm_first),
      batch_first_(options.batch_first) {}

Tensor TransformerDecoderLayer::attend(const Tensor& x, const DecoderCall& call) {
  const AttentionCall masks = {.key_padding_mask = call.tgt_key_padding_mask,
                               .attn_mask = call.tgt_mask,
                               .need_weights = false,
                               .is_causal = call.tgt_is_causal};
  return dropout1(self_attn.forward(x, x, x, masks).output);
}

Tensor TransformerDecoderLayer::attend_to(const Tensor& x, const Tensor& memory, const DecoderCall& call) {
  const AttentionCall masks = {.key_padding_mask = call.memory_key_padding_mask,
                               .attn_mask = call.memory_mask,
                               .need_weights = false,
                               .is_causal = call.memory_is_causal};
  return dropout2(multihead_attn.forward(x, memory, memory, masks).output);
}

Tensor TransformerDecoderLayer::feed_forward(const Tensor& x) {
  return dropout3(linear2(dropout(activated(linear1, activation_, x))));
}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory, const DecoderCall& call) {
  const BatchDim batch(batch_dim_of(tgt, batch_first_));
  if (norm_first_) {
    const auto [x, normal] = norm2.after_add(tgt, attend(norm1(tgt), call));
    const auto [y, normal_y] = norm3.after_add(x, attend_to(normal, memory, call));
    return y + feed_forward(normal_y);
  }
  const Tensor x = norm1.after_add(tgt, attend(tgt, call)).norm;
  const Tensor y = norm2.after_add(x, attend_to(x, memory, call)).norm;
  return norm3.after_add(y, feed_forward(y)).norm;
}

TransformerEncoder::TransformerEncoder(TransformerEncoderLayer layer, std::int64_t num_layers,
                                       std::optional<LayerNorm> last)
    : layers(copies("TransformerEncoder", std::move(layer), num_layers)), norm(std::move(last)) {}

Tensor TransformerEncoder::forward(const Tensor& src, const EncoderCall& call) {
  Tensor x = src;
  for (TransformerEncoderLayer& layer : layers) x = layer(x, call);
  return norm ? (*norm)(x) : x;
}

TransformerDecoder::TransformerDecoder(TransformerDecoderLayer layer, std::int64_t num_layers,
                                       std::optional<LayerNorm> last)
    : layers(copies("TransformerDecoder", std::move(layer), num_layers)), norm(std::move(last)) {}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory, const DecoderCall& call) {
  Tensor x = tgt;
  for (TransformerDecoderLayer& layer : layers) x = layer(x, memory, call);
  return norm ? (*norm)(x) : x;
}

namespace {

TransformerLayerOptions layer_options(const TransformerOptions& options) {
  return {.dim_feedforward = options.dim_feedforward,
          .dropout = options.dropout,
          .activation = options.activation,
          .layer_norm_eps = options.layer_norm_eps,
          .batch_first = options.batch_first,
          .norm_first = options.norm_first,
          .bias = options.bias,
          .tensor = options.tensor};
}

}  // namespace

Transformer::Transformer(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& options)
    : encoder(TransformerEncoderLayer(d_model, nhead, layer_options(options)), options.num_encoder_layers,
              norm_of(d_model, layer_options(options))),
      decoder(TransformerDecoderLayer(d_model, nhead, layer_options(options)), options.num_decoder_layers,
              norm_of(d_model, layer_options(options))) {
  for (Tensor parameter : parameters())
    if (parameter.dim() > 1) init::xavier_uniform_(parameter);
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const TransformerCall& call) {
  const Tensor memory = encoder(
      src,
      {.src_mask = call.src_mask, .src_key_padding_mask = call.src_key_padding_mask, .is_causal = call.src_is_causal});
  return decoder(tgt, memory,
                 {.tgt_mask = call.tgt_mask,
                  .memory_mask = call.memory_mask,
                  .tgt_key_padding_mask = call.tgt_key_padding_mask,
                  .memory_key_padding_mask = call.memory_key_padding_mask,
                  .tgt_is_causal = call.tgt_is_causal,
                  .memory_is_causal = call.memory_is_causal});
}

Tensor Transformer::generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options) {
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), options), 1);
}

}  // namespace lockstep::nn
