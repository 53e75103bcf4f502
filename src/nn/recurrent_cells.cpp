#include <lockstep/nn/recurrent_cells.h>

#include <cmath>

#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "core/text.h"

namespace lockstep::nn {
namespace {

template <class Cell>
void make_parameters(const char* name, Cell& cell, std::int64_t gates, std::int64_t input_size,
                     std::int64_t hidden_size, bool bias, const TensorOptions& options) {
  if (input_size < 1 || hidden_size < 1)
    throw InvalidArgument(text("[", name, "] expected sizes of at least 1, got ", input_size, " and ", hidden_size));
  const double bound = 1 / std::sqrt(double(hidden_size));
  const auto parameter = [&](const Shape& sizes) {
    Tensor value = empty(sizes, {.dtype = options.dtype, .device = options.device});
    return Parameter(uniform_(value, -bound, bound));
  };
  cell.weight_ih = parameter({gates * hidden_size, input_size});
  cell.weight_hh = parameter({gates * hidden_size, hidden_size});
  if (!bias) return;
  cell.bias_ih = parameter({gates * hidden_size});
  cell.bias_hh = parameter({gates * hidden_size});
}

// The given state, or zeros, as [batch, hidden] for x [batch, in].
Tensor state_for(const Tensor& x, const Tensor& state, const Parameter& weight_hh) {
  if (state.defined()) return x.dim() == 1 ? state.unsqueeze(0) : state;
  return zeros({x.dim() == 1 ? 1 : x.size(0), weight_hh.size(1)}, {.dtype = x.dtype(), .device = x.device()});
}

Tensor or_none(const std::optional<Parameter>& parameter) { return parameter ? Tensor(*parameter) : Tensor(); }

template <class Step, class Cell>
Tensor stepped(const Cell& cell, const Step& step, const Tensor& x, const Tensor& h) {
  const Tensor next = step(x.dim() == 1 ? x.unsqueeze(0) : x, state_for(x, h, cell.weight_hh), cell.weight_ih,
                           cell.weight_hh, or_none(cell.bias_ih), or_none(cell.bias_hh));
  return x.dim() == 1 ? next.squeeze(0) : next;
}

}  // namespace

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options)
    : nonlinearity_(options.nonlinearity) {
  make_parameters("RNNCell", *this, 1, input_size, hidden_size, options.bias, options.tensor);
}
GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, const CellOptions& options) {
  make_parameters("GRUCell", *this, 3, input_size, hidden_size, options.bias, options.tensor);
}
LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const CellOptions& options) {
  make_parameters("LSTMCell", *this, 4, input_size, hidden_size, options.bias, options.tensor);
}

Tensor RNNCell::forward(const Tensor& x, const Tensor& h) const {
  return stepped(*this, nonlinearity_ == Nonlinearity::tanh ? rnn_tanh_cell : rnn_relu_cell, x, h);
}
Tensor GRUCell::forward(const Tensor& x, const Tensor& h) const { return stepped(*this, gru_cell, x, h); }

LSTMState LSTMCell::forward(const Tensor& x, const LSTMState& state) const {
  if (x.dim() == 1) {
    const auto row = [](const Tensor& t) { return t.defined() ? t.unsqueeze(0) : t; };
    const LSTMState next = forward(x.unsqueeze(0), {row(state.h), row(state.c)});
    return {next.h.squeeze(0), next.c.squeeze(0)};
  }
  return lstm_cell(x, {state_for(x, state.h, weight_hh), state_for(x, state.c, weight_hh)}, weight_ih, weight_hh,
                   or_none(bias_ih), or_none(bias_hh));
}

}  // namespace lockstep::nn
