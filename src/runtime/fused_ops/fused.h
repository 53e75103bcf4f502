// Fused operations: a vendor's library, or our own code, runs many ops as one operation. One description serves all
// kinds. A backend accepts an operation or declines it; a declined operation is composed from ops (docs/fused.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/core/dtype.h>
#include <lockstep/core/shape.h>

namespace lockstep {

/// Each kind with its operands in order; those in brackets may be absent. Shapes are PyTorch's; strides are arbitrary.
enum class FusedKind : std::uint8_t {
  /// x [N, C, spatial...], weight [K, C / groups, window...], (bias [K]) -> y [N, K, spatial...]. Cross-correlation.
  convolution,
  /// g (y's shape), weight -> the gradient of x.
  convolution_input_gradient,
  /// x, g -> the gradient of weight.
  convolution_weight_gradient,
  /// q [N, H, L, E], k [N, G, S, E], v [N, G, S, F], (mask, added to the scores, broadcast to [N, H, L, S])
  /// -> y [N, H, L, F], logsumexp of the scores [N, H, L] in the compute dtype; (start of the dropout's random
  /// numbers).
  /// H is a multiple of G.
  attention,
  /// g (y's shape), q, k, v, (mask), y, logsumexp -> the gradients of q, k, v; (start of the dropout's random numbers).
  attention_gradient,
  /// x [N, C, spatial...], (weight [C]), (bias [C]) -> y of x's shape; mean and variance [C] (correction 0).
  batch_norm,
  /// g (y's shape), x, (weight), mean, variance -> the gradients of x, weight [C] and bias [C].
  batch_norm_gradient,
  /// gates [S, N, 4 H] (pre-activations without the recurrent product; overwritten by i, f, g, o), weight [4 H, H], h
  /// before each step [S, N, H], c before each step -> h after each step, c after each step. The state before a step is
  /// the state after the previous one in the order of computation; the buffers may alias.
  lstm,
  /// g (h's shape), weight, gates, c before each step, c after each step -> dh [N, H], dc [N, H], the gradient of the
  /// pre-activations. On entry dh and dc hold the gradients of the last state, on return the gradients of the initial
  /// state.
  lstm_gradient,
};

/// A tensor as a backend sees it. `data` may be null in workspace_size().
struct FusedOperand {
  void* data = nullptr;
  DType dtype = kFloat32;
  Shape sizes, strides;  ///< Strides in elements.
  bool present = false;
  bool written = false;  ///< True if the operation writes the tensor, false if it reads it.
};

/// Dropout of attention's weights. Word e % 4 of Philox block start[2] + e / 4 (seed start[0], stream start[1]) decides
/// about weight e of the whole batch. Weight i of the row-major [N, H, L, S] is weight
/// first + i / run * stride + i % run of the whole batch; run is a multiple of S.
struct FusedDropout {
  std::uint64_t threshold = 0;              ///< Weights with smaller words are dropped. 0: there is no dropout.
  double scale = 1;                         ///< The factor of kept weights.
  std::array<std::uint64_t, 3> start = {};  ///< Unless an operand has the three numbers, in a captured step.
  std::int64_t first = 0, run = 0, stride = 0;
};

struct FusedOp {
  static constexpr std::size_t kMaxOperands = 11;

  FusedKind kind = FusedKind::convolution;
  const char* name = "";  ///< A string literal, for the race checker and the trace.
  double flops = 0;
  std::array<FusedOperand, kMaxOperands> operands = {};

  // For convolutions: one number per spatial dimension. The zero padding is the same before and after.
  Shape stride = {}, padding = {}, dilation = {};
  std::int64_t groups = 1;

  // For attention: y = dropout(softmax(scale q k^T + mask)) v; with `causal`, position i of L attends to positions up
  // to i of S.
  double scale = 1;
  bool causal = false;
  FusedDropout dropout = {};

  // For batch norm: y = (x - mean) / sqrt(variance + epsilon) * weight + bias.
  double epsilon = 0;

  bool reverse = false;  ///< For LSTMs: compute the last step first.
};

}  // namespace lockstep
