// The layers of a transformer (Vaswani et al. 2017) and stacks of them. State-dict names, shapes and defaults are
// PyTorch's. Masks are as in MultiheadAttention: bool masks block attention where true, others are added to the scores.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <lockstep/nn/attention.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/ops/activation.h>

namespace lockstep::nn {

/// An activation function: any callable, or a name that PyTorch uses.
class LOCKSTEP_API ActivationFunction : public std::function<Tensor(const Tensor&)> {
 public:
  using std::function<Tensor(const Tensor&)>::function;
  ActivationFunction(const char* name);  ///< "relu" or "gelu"; throws InvalidArgument for another name.
};

struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;  ///< Features between the two linear layers.
  double dropout = 0.1;
  ActivationFunction activation = relu;  ///< The activation after the first linear layer.
  double layer_norm_eps = 1e-5;          ///< The eps of all normalizations.
  bool batch_first = false;              ///< [batch, length, features] instead of [length, batch, features].
  bool norm_first = false;               ///< Normalizes before attention and feed-forward, not after.
  bool bias = true;
  TensorOptions tensor = {};  ///< Device and dtype.
};

/// Options of one call of an encoder.
struct EncoderCall {
  Tensor src_mask = {}, src_key_padding_mask = {};  ///< As in MultiheadAttention.
  bool is_causal = false;                           ///< True: src_mask is causal.
};

/// Two parts: self-attention, and two linear layers (feed-forward). Each part's output is added to its input and
/// normalized.
class LOCKSTEP_API TransformerEncoderLayer : public Module<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerLayerOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(TransformerEncoderLayer);

  MultiheadAttention self_attn;         ///< Self-attention over src.
  Linear linear1, linear2;              ///< The feed-forward part.
  LayerNorm norm1, norm2;               ///< One for each part.
  Dropout dropout, dropout1, dropout2;  ///< `dropout` follows the activation, dropout1 and 2 follow the parts.

  auto members() {
    return nn::members("self_attn", self_attn, "linear1", linear1, "dropout", dropout, "linear2", linear2, "norm1",
                       norm1, "norm2", norm2, "dropout1", dropout1, "dropout2", dropout2);
  }
  using Call = EncoderCall;
  Tensor forward(const Tensor& src, const EncoderCall& call = {});

 private:
  Tensor attend(const Tensor& x, const EncoderCall& call);
  Tensor feed_forward(const Tensor& x);

  std::function<Tensor(const Tensor&)> activation_;
  bool norm_first_, batch_first_;
};

/// Options of one call of a decoder.
struct DecoderCall {
  /// As in MultiheadAttention.
  Tensor tgt_mask = {}, memory_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;  ///< True: that mask is causal.
};

/// Three parts, each as in TransformerEncoderLayer: self-attention, attention to the encoder's output, and two linear
/// layers.
class LOCKSTEP_API TransformerDecoderLayer : public Module<TransformerDecoderLayer> {
 public:
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerLayerOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(TransformerDecoderLayer);

  MultiheadAttention self_attn, multihead_attn;   ///< Attention to tgt, and to memory.
  Linear linear1, linear2;                        ///< The feed-forward part.
  LayerNorm norm1, norm2, norm3;                  ///< One for each part.
  Dropout dropout, dropout1, dropout2, dropout3;  ///< `dropout` follows the activation, 1 to 3 follow the parts.

  auto members() {
    return nn::members("self_attn", self_attn, "multihead_attn", multihead_attn, "linear1", linear1, "dropout", dropout,
                       "linear2", linear2, "norm1", norm1, "norm2", norm2, "norm3", norm3, "dropout1", dropout1,
                       "dropout2", dropout2, "dropout3", dropout3);
  }
  using Call = DecoderCall;
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderCall& call = {});

 private:
  Tensor attend(const Tensor& x, const DecoderCall& call);
  Tensor attend_to(const Tensor& x, const Tensor& memory, const DecoderCall& call);
  Tensor feed_forward(const Tensor& x);

  std::function<Tensor(const Tensor&)> activation_;
  bool norm_first_, batch_first_;
};

/// `num_layers` copies of a layer in a row, then an optional normalization.
class LOCKSTEP_API TransformerEncoder : public Module<TransformerEncoder> {
 public:
  /// Throws InvalidArgument for a negative num_layers.
  TransformerEncoder(TransformerEncoderLayer layer, std::int64_t num_layers, std::optional<LayerNorm> last = {});
  LOCKSTEP_COPIED_IF_ASKED(TransformerEncoder);

  std::vector<TransformerEncoderLayer> layers;  ///< In order.
  std::optional<LayerNorm> norm;                ///< Normalizes the result, if present.

  auto members() { return nn::members("layers", layers, "norm", norm); }
  using Call = EncoderCall;
  Tensor forward(const Tensor& src, const EncoderCall& call = {});
};

class LOCKSTEP_API TransformerDecoder : public Module<TransformerDecoder> {
 public:
  /// Throws as TransformerEncoder does.
  TransformerDecoder(TransformerDecoderLayer layer, std::int64_t num_layers, std::optional<LayerNorm> last = {});
  LOCKSTEP_COPIED_IF_ASKED(TransformerDecoder);

  std::vector<TransformerDecoderLayer> layers;  ///< In order.
  std::optional<LayerNorm> norm;                ///< Normalizes the result, if present.

  auto members() { return nn::members("layers", layers, "norm", norm); }
  using Call = DecoderCall;
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderCall& call = {});
};

struct TransformerOptions {
  std::int64_t num_encoder_layers = 6, num_decoder_layers = 6;  ///< Layers of each half.
  std::int64_t dim_feedforward = 2048;                          ///< This option and those below are for each layer.
  double dropout = 0.1;
  ActivationFunction activation = relu;  ///< As in TransformerLayerOptions.
  double layer_norm_eps = 1e-5;          ///< As in TransformerLayerOptions.
  bool batch_first = false;
  bool norm_first = false;  ///< As in TransformerLayerOptions.
  bool bias = true;
  TensorOptions tensor = {};
};

/// The masks of a call of a Transformer. An undefined mask hides nothing.
struct TransformerCall {
  Tensor src_mask = {}, tgt_mask = {}, memory_mask = {};  ///< attn_mask of MultiheadAttention.
  /// key_padding_mask of MultiheadAttention: [batch, length], true for padding.
  Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool src_is_causal = false, tgt_is_causal = false, memory_is_causal = false;  ///< True: that mask is causal.
};

/// An encoder and a decoder, each with a final normalization. Matrices are initialized by xavier_uniform_() (Glorot,
/// Bengio 2010).
class LOCKSTEP_API Transformer : public Module<Transformer> {
 public:
  explicit Transformer(std::int64_t d_model = 512, std::int64_t nhead = 8, const TransformerOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(Transformer);

  TransformerEncoder encoder;  ///< Encodes src.
  TransformerDecoder decoder;  ///< Decodes tgt.

  auto members() { return nn::members("encoder", encoder, "decoder", decoder); }
  using Call = TransformerCall;
  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerCall& call = {});
  /// [size, size]: -infinity above the diagonal, else 0.
  static Tensor generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options = {});
};

}  // namespace lockstep::nn
