// Attention, and the rotation of queries and keys by their positions. Floating dtypes, one for all tensors, else
// DTypeError; ShapeError names what does not fit. Differentiable, twice too.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct AttentionOptions {
  /// Broadcasts to [..., queries, keys]. Of bool: true where a query sees a key. Of the query's dtype: is added to the
  /// scores. Undefined: every query sees every key.
  Tensor mask = {};
  double dropout = 0;                ///< Drops weights, [..., queries, keys], as dropout() does, in training or not.
  bool is_causal = false;            ///< Query i sees keys 0 to i. Not together with a mask: InvalidArgument.
  std::optional<double> scale = {};  ///< Of the scores; 1 / sqrt(features) if not said.
  bool enable_gqa = false;           ///< The query may have a multiple of the key's heads (dimension -3): each head
                                     ///< of the key and value serves that many of the query's, in order.
};

/// softmax(scale query key^T + mask) value (Vaswani et al. 2017). query: [..., queries, features], key: [..., keys,
/// features], value: [..., keys, out]; the leading dimensions broadcast. The result: [..., queries, out]. A query that
/// sees no key gives 0.
/// Memory grows linearly with the numbers of queries and keys. It grows with the product of both with dropout, with a
/// mask that needs a gradient, and for gradients that are recorded themselves.
LOCKSTEP_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                 const AttentionOptions& options = {});

/// Which features a rotation pairs.
enum class RotaryPairs : std::uint8_t {
  halves,     ///< i and i + features / 2, as in Llama and GPT-NeoX.
  neighbors,  ///< 2 i and 2 i + 1, as in GPT-J and in the paper.
};

struct RotaryOptions {
  double base = 10000;                      ///< Of the frequencies.
  RotaryPairs pairs = RotaryPairs::halves;  ///< Which features make a pair.
};

/// Turns pair i of the features at position p by the angle p base^(-2 i / features) (Su et al. 2021). x: [..., length,
/// features], with an even number of features; positions: integers or x's dtype, broadcast to [..., length].
LOCKSTEP_API Tensor rotary_embedding(const Tensor& x, const Tensor& positions, const RotaryOptions& options = {});
/// The same with the cosines and sines of the angles, which broadcast to [..., length, features / 2], of x's dtype.
LOCKSTEP_API Tensor rotary_embedding(const Tensor& x, const Tensor& cosines, const Tensor& sines,
                                     RotaryPairs pairs = RotaryPairs::halves);

}  // namespace lockstep
