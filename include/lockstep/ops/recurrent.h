// One time step of a recurrent layer. x: [batch, in]; h and c: [batch, hidden]; weight_ih: [gates * hidden, in];
// weight_hh: [gates * hidden, hidden]; biases: [gates * hidden], both or neither; with 4 gates for an LSTM, 3 for a
// GRU, else 1. All have one floating dtype, else DTypeError; shapes that do not fit throw ShapeError. A step is two
// matrix products and one kernel. Differentiable.
#pragma once

#include <cstdint>

#include <lockstep/core/members.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The kind of cell.
enum class RecurrentKind : std::uint8_t { rnn_tanh, rnn_relu, gru, lstm };

/// The state of an LSTM.
struct LSTMState {
  Tensor h, c;  ///< [batch, hidden]
  auto members() { return lockstep::members("h", h, "c", c); }
};

/// i, f, g, o = x weight_ih^T + bias_ih + h weight_hh^T + bias_hh;
/// c = sigmoid(f) c + sigmoid(i) tanh(g); h = sigmoid(o) tanh(c) (Hochreiter, Schmidhuber 1997).
LOCKSTEP_API LSTMState lstm_cell(const Tensor& x, const LSTMState& state, const Tensor& weight_ih,
                                 const Tensor& weight_hh, const Tensor& bias_ih = {}, const Tensor& bias_hh = {});

/// r, z = sigmoid(x weight_ih^T + bias_ih + h weight_hh^T + bias_hh), from the first two thirds of the rows; n = tanh(x
/// weight_ih^T + bias_ih + r (h weight_hh^T + bias_hh)), from the last third; the result is (1 - z) n + z h (Cho et al.
/// 2014).
LOCKSTEP_API Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih, const Tensor& weight_hh,
                             const Tensor& bias_ih = {}, const Tensor& bias_hh = {});

/// tanh(x weight_ih^T + bias_ih + h weight_hh^T + bias_hh).
LOCKSTEP_API Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih, const Tensor& weight_hh,
                                  const Tensor& bias_ih = {}, const Tensor& bias_hh = {});
/// rnn_tanh_cell with relu in place of tanh.
LOCKSTEP_API Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih, const Tensor& weight_hh,
                                  const Tensor& bias_ih = {}, const Tensor& bias_hh = {});

}  // namespace lockstep
