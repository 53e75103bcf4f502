// The heavy operations: what a library, or code of our own, does as one where ops would be many. One description serves
// all of them. A backend offers an operation or declines it; a declined one is composed from ops (docs/fused.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/core/dtype.h>
#include <lockstep/core/shape.h>

namespace lockstep {

/// Each with its operands in their order; those in brackets may be absent. Shapes as PyTorch's, whatever the strides.
enum class FusedKind : std::uint8_t {
  /// x [N, C, spatial...], weight [K, C / groups, window...], (bias [K]) -> y [N, K, spatial...]. Cross-correlation.
  convolution,
  /// g (y's shape), weight -> the gradient of x.
  convolution_input_gradient,
  /// x, g -> the gradient of weight.
  convolution_weight_gradient,
  /// q [N, H, L, E], k [N, G, S, E], v [N, G, S, F], (mask, added, broadcast to [N, H, L, S])
  /// -> y [N, H, L, F], logsumexp of the scores [N, H, L] in the compute dtype. H is a multiple of G.
  attention,
  /// g (y's shape), q, k, v, (mask), y, logsumexp -> the gradients of q, k, v.
  attention_gradient,
  /// x [N, C, spatial...], (weight [C]), (bias [C]) -> y of x's shape; the mean and the variance [C] (correction 0).
  batch_norm,
  /// g (y's shape), x, (weight), mean, variance -> the gradients of x, weight [C] and bias [C].
  batch_norm_gradient,
  /// gates [S, N, 4 H] (sums that lack the product of the state; become i, f, g, o), weight [4 H, H], h before each
  /// step
  /// [S, N, H], c before each step -> h after each step, c after each step. Before a step is after the one that is
  /// taken before it, and may be the same memory.
  lstm,
  /// g (h's shape), weight, gates, c before each step, c after each step -> dh [N, H], dc [N, H], the gradient of the
  /// gates' sums. dh and dc hold the gradients of the last state, and then those of the first.
  lstm_gradient,
};

/// A tensor as a backend sees it. `data` is null while a backend is only asked.
struct FusedOperand {
  void* data = nullptr;
  DType dtype = kFloat32;
  Shape sizes, strides;  ///< Strides in elements.
  bool present = false;
  bool written = false;  ///< Else read.
};

struct FusedOp {
  static constexpr std::size_t kMostOperands = 10;

  FusedKind kind = FusedKind::convolution;
  const char* name = "";  ///< A literal, for the race checker and the trace.
  double flops = 0;
  std::array<FusedOperand, kMostOperands> operands = {};

  // Of convolutions: one number for each spatial dimension. Padding is the same before and after, with zeros.
  Shape stride = {}, padding = {}, dilation = {};
  std::int64_t groups = 1;

  // Of attention: y = softmax(scale q k^T + mask) v; `causal` lets position i of L see positions up to i of S.
  double scale = 1;
  bool causal = false;

  // Of batch norm: y = (x - mean) / sqrt(variance + epsilon) * weight + bias.
  double epsilon = 0;

  bool reverse = false;  ///< Of LSTMs: the last step is taken first.
};

}  // namespace lockstep
