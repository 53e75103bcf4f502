// Multi-head attention as a layer. State-dict names and shapes are PyTorch's.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/nn/layers.h>

namespace lockstep::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  ///< Dropout of the attention weights, in training.
  bool bias = true;
  bool add_bias_kv = false;               ///< Appends a trained key and value.
  bool add_zero_attn = false;             ///< Appends a key and a value of zeros.
  std::optional<std::int64_t> kdim = {};  ///< Features of keys; embed_dim by default.
  std::optional<std::int64_t> vdim = {};  ///< Features of values; embed_dim by default.
  bool batch_first = false;               ///< [batch, length, features] instead of [length, batch, features].
  TensorOptions tensor = {};              ///< Device and dtype.
};

/// Options of one call of MultiheadAttention.
struct AttentionCall {
  /// [batch, keys]. A bool mask is true for padding, which no query attends to; a mask of the query's dtype is added to
  /// the scores.
  Tensor key_padding_mask = {};
  /// [queries, keys] or [batch * heads, queries, keys]. A bool mask is true where a query does not attend to a key (the
  /// opposite of scaled_dot_product_attention); a mask of the query's dtype is added to the scores.
  Tensor attn_mask = {};
  bool need_weights = true;          ///< If false, returns no weights; memory grows linearly with the length.
  bool average_attn_weights = true;  ///< Averages the returned weights over the heads.
  bool is_causal = false;            ///< Query i attends to keys 0 to i. Ignored if attn_mask is given.
};

/// The results of MultiheadAttention.
struct AttendedTensors {
  Tensor output;   ///< Has the query's shape, with embed_dim features.
  Tensor weights;  ///< [batch, queries, keys], or [batch, heads, queries, keys]; undefined without need_weights.
};

/// softmax(q k^T / sqrt(features of a head)) v for each head, where q, k and v are linear functions of query, key and
/// value, followed by a linear function of all heads (Vaswani et al. 2017). Without a batch: [length, features].
class LOCKSTEP_API MultiheadAttention : public Module<MultiheadAttention> {
 public:
  /// Throws InvalidArgument unless `num_heads` divides `embed_dim`.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, const MultiheadAttentionOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(MultiheadAttention);

  std::optional<Parameter> in_proj_weight;                               ///< [3 embed_dim, embed_dim]
  std::optional<Parameter> q_proj_weight, k_proj_weight, v_proj_weight;  ///< Used if kdim or vdim is not embed_dim.
  std::optional<Parameter> in_proj_bias;                                 ///< [3 embed_dim]
  std::optional<Parameter> bias_k, bias_v;                               ///< [1, 1, embed_dim]
  Linear out_proj;                                                       ///< The output projection.

  auto members() {
    return nn::members("in_proj_weight", in_proj_weight, "q_proj_weight", q_proj_weight, "k_proj_weight", k_proj_weight,
                       "v_proj_weight", v_proj_weight, "in_proj_bias", in_proj_bias, "bias_k", bias_k, "bias_v", bias_v,
                       "out_proj", out_proj, "dropout", dropout_);
  }
  using Call = AttentionCall;
  /// Throws ShapeError, DTypeError and DeviceMismatch for tensors that do not fit.
  AttendedTensors forward(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionCall& call = {});
  /// True if the batch is dimension 0.
  bool batch_first() const noexcept { return batch_first_; }

 private:
  struct Projected {
    Tensor query, key, value;  // [batch, heads, length, features of a head]
  };
  Projected project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  void extend(Projected& heads, Tensor& mask) const;

  std::int64_t embed_dim_, heads_;
  double dropout_;
  bool zero_attention_, batch_first_;
};

}  // namespace lockstep::nn
