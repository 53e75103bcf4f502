// Chooses the function that runs a sequence of each kind. Cells are sequences of one step.
#include <lockstep/ops/recurrent.h>

#include "core/text.h"
#include "ops/autocast.h"
#include "ops/recurrent/sequence.h"

namespace lockstep {
namespace recurrent {

Outputs run(const char* op, Kind kind, const Inputs& inputs, const Steps& steps) {
  if (const auto cast = autocast::product()) {
    Inputs alike;
    for (std::size_t i = 0; i < kInputs; ++i) alike[i] = cast(inputs[i]);
    return run(op, kind, alike, steps);
  }
  check_sequence(op, kind, inputs, steps.batch());
  if (inputs[kWeightHr].defined()) return composed(kind, inputs, steps);
  switch (kind) {
    case Kind::rnn_tanh: return run_rnn_tanh(inputs, steps);
    case Kind::rnn_relu: return run_rnn_relu(inputs, steps);
    case Kind::gru: return run_gru(inputs, steps);
    default: return run_lstm(inputs, steps);
  }
}

namespace {

Outputs one_step(const char* op, Kind kind, const Inputs& inputs) {
  const Tensor& x = inputs[kX];
  if (impl_of(op, x).sizes.rank() != 2) throw ShapeError(text("[", op, "] expected x [batch, in], got ", x.sizes()));
  if (inputs[kBiasIh].defined() != inputs[kBiasHh].defined())
    throw InvalidArgument(text("[", op, "] expected both biases or none, got one"));
  return run(op, kind, inputs, Steps({x.sizes()[0]}, false));
}

}  // namespace
}  // namespace recurrent

using recurrent::Kind;
using recurrent::one_step;

LSTMState lstm_cell(const Tensor& x, const LSTMState& state, const Tensor& weight_ih, const Tensor& weight_hh,
                    const Tensor& bias_ih, const Tensor& bias_hh) {
  const auto out =
      one_step("lstm_cell", Kind::lstm, {x, state.h, state.c, weight_ih, weight_hh, bias_ih, bias_hh, Tensor()});
  return {out.output, out.c};
}

Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih, const Tensor& weight_hh,
                const Tensor& bias_ih, const Tensor& bias_hh) {
  return one_step("gru_cell", Kind::gru, {x, h, Tensor(), weight_ih, weight_hh, bias_ih, bias_hh, Tensor()}).output;
}

Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih, const Tensor& weight_hh,
                     const Tensor& bias_ih, const Tensor& bias_hh) {
  return one_step("rnn_tanh_cell", Kind::rnn_tanh, {x, h, Tensor(), weight_ih, weight_hh, bias_ih, bias_hh, Tensor()})
      .output;
}

Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih, const Tensor& weight_hh,
                     const Tensor& bias_ih, const Tensor& bias_hh) {
  return one_step("rnn_relu_cell", Kind::rnn_relu, {x, h, Tensor(), weight_ih, weight_hh, bias_ih, bias_hh, Tensor()})
      .output;
}

}  // namespace lockstep
