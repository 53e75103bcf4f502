// Attention, and rotary position embeddings. All tensors have one floating dtype, else DTypeError; ShapeError names the
// sizes that do not fit. Twice differentiable.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct AttentionOptions {
  /// Broadcasts to [..., queries, keys]. A bool mask is true where a query sees a key. A mask of the query's dtype is
  /// added to the scores. If undefined, every query sees every key.
  Tensor mask = {};
  /// The probability of dropping an attention weight [..., queries, keys], as dropout() does; also outside of training.
  double dropout = 0;
  bool is_causal = false;            ///< Query i sees keys 0 to i. Throws InvalidArgument together with a mask.
  std::optional<double> scale = {};  ///< Multiplies the scores; default 1 / sqrt(features).
  /// True: the query may have m times as many heads (dimension -3) as key and value. Each head of key and value then
  /// serves m heads of the query, in order.
  bool enable_gqa = false;
};

/// softmax(scale query key^T + mask) value (Vaswani et al. 2017). query: [..., queries, features], key: [...,
/// keys, features], value: [..., keys, out]; the leading dimensions broadcast. The result: [..., queries,
/// out], 0 for a query that sees no key. Memory grows linearly with the numbers of queries and keys, but with
/// their product if there is dropout, a mask that requires a gradient, or a recorded backward (double
/// backward).
LOCKSTEP_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                 const AttentionOptions& options = {});

/// The features that a rotation pairs.
enum class RotaryPairs : std::uint8_t {
  halves,     ///< i and i + features / 2, as in Llama and GPT-NeoX.
  neighbors,  ///< 2 i and 2 i + 1, as in GPT-J and in the paper.
};

struct RotaryOptions {
  double base = 10000;                      ///< The base of the frequencies.
  RotaryPairs pairs = RotaryPairs::halves;  ///< The features that make a pair.
};

/// Rotates pair i of the features at position p by the angle p base^(-2 i / features) (Su et al. 2021). x: [...,
/// length, features], with an even number of features; positions: integers or x's dtype, broadcast to [..., length].
LOCKSTEP_API Tensor rotary_embedding(const Tensor& x, const Tensor& positions, const RotaryOptions& options = {});
/// Rotates by angles whose cosines and sines are given, in x's dtype; they broadcast to [..., length, features / 2].
LOCKSTEP_API Tensor rotary_embedding(const Tensor& x, const Tensor& cosines, const Tensor& sines,
                                     RotaryPairs pairs = RotaryPairs::halves);

}  // namespace lockstep
