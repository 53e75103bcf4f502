// A recurrent layer's sequence made of ops: for the double backward of fused sequences, and for LSTMs with a
// projection.
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "ops/dtypes.h"
#include "ops/recurrent/sequence.h"

namespace lockstep::recurrent {
namespace {

struct State {
  Tensor h, c;
};

// x and y: the contributions of the inputs and of the state to the gates.
State step(Kind kind, const Tensor& x, const Tensor& y, const State& before) {
  if (kind == Kind::rnn_tanh) return {tanh(x + y), {}};
  if (kind == Kind::rnn_relu) return {relu(x + y), {}};
  if (kind == Kind::gru) {
    const std::vector<Tensor> from_x = chunk(x, 3, 1), from_h = chunk(y, 3, 1);
    const Tensor r = sigmoid(from_x[0] + from_h[0]), z = sigmoid(from_x[1] + from_h[1]);
    const Tensor n = tanh(from_x[2] + r * from_h[2]);
    return {n + z * (before.h - n), {}};
  }
  const std::vector<Tensor> gates = chunk(x + y, 4, 1);
  const Tensor c = sigmoid(gates[1]) * before.c + sigmoid(gates[0]) * tanh(gates[2]);
  return {sigmoid(gates[3]) * tanh(c), c};
}

// The state after a step: updated for the longer sequences, unchanged for those that have ended.
Tensor joined(const Tensor& stepped, const Tensor& state) {
  const std::int64_t count = stepped.size(0), batch = state.size(0);
  return count == batch ? stepped : cat({stepped, state.narrow(0, count, batch - count)});
}

void expect_sizes(const char* op, const char* what, const Tensor& x, const Shape& sizes) {
  if (x.defined() && x.sizes() != sizes)
    throw ShapeError(text("[", op, "] expected ", what, " of shape ", sizes, ", got ", x.sizes()));
}

}  // namespace

void check_sequence(const char* op, Kind kind, const Inputs& in, std::int64_t batch) {
  const Tensor& x = in[kX];
  check_floating(op, x);
  for (const Tensor& other : in) {
    if (!other.defined()) continue;
    check_same_device(op, x, other);
    if (other.dtype() != x.dtype())
      throw DTypeError(text("[", op, "] expected ", x.dtype(), " as x has, got ", other.dtype()));
  }
  const Shape& ih = impl_of(op, in[kWeightIh]).sizes;
  const std::int64_t gates = gates_of(kind);
  if (ih.rank() != 2 || ih[0] % gates != 0)
    throw ShapeError(text("[", op, "] expected a weight_ih [", gates, " hidden, in], got ", ih));
  const std::int64_t hidden = ih[0] / gates;
  if (x.dim() != 2 || x.sizes()[1] != ih[1])
    throw ShapeError(text("[", op, "] expected x [..., ", ih[1], "], got ", x.sizes()));
  const std::int64_t out = in[kWeightHr].defined() ? in[kWeightHr].size(0) : hidden;
  expect_sizes(op, "a weight_hh", in[kWeightHh], {ih[0], out});
  expect_sizes(op, "a bias_ih", in[kBiasIh], {ih[0]});
  expect_sizes(op, "a bias_hh", in[kBiasHh], {ih[0]});
  expect_sizes(op, "a weight_hr", in[kWeightHr], {out, hidden});
  expect_sizes(op, "an initial h", in[kH], {batch, out});
  expect_sizes(op, "an initial c", in[kC], {batch, hidden});
}

Outputs composed(Kind kind, const Inputs& in, const Steps& steps) {
  const Tensor from_x = linear(in[kX], in[kWeightIh], in[kBiasIh]);
  const std::int64_t hidden = in[kWeightIh].size(0) / gates_of(kind), out = in[kWeightHh].size(1);
  const TensorOptions like = in[kX].options();
  State state = {in[kH].defined() ? in[kH] : zeros({steps.batch(), out}, like), in[kC]};
  if (kind == Kind::lstm && !state.c.defined()) state.c = zeros({steps.batch(), hidden}, like);
  std::vector<Tensor> outputs(std::size_t(steps.count()));
  for (std::int64_t nth = 0; nth < steps.count(); ++nth) {
    const std::int64_t at = steps.taken(nth), count = steps.size(at);
    const State before = {state.h.narrow(0, 0, count), state.c.defined() ? state.c.narrow(0, 0, count) : Tensor()};
    const Tensor from_h = linear(before.h, in[kWeightHh], in[kBiasHh]);
    State after = step(kind, from_x.narrow(0, steps.offset(at), count), from_h, before);
    if (in[kWeightHr].defined()) after.h = linear(after.h, in[kWeightHr]);
    outputs[std::size_t(at)] = after.h;
    state = {joined(after.h, state.h), state.c.defined() ? joined(after.c, state.c) : Tensor()};
  }
  return {cat(outputs), state.h, state.c};
}

}  // namespace lockstep::recurrent
