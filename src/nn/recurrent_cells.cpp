#include <lockstep/nn/recurrent_cells.h>

#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "nn/layer_parameters.h"

namespace lockstep::nn {
namespace {

// The given state, or zeros, as [batch, hidden] for x [batch, in].
Tensor state_for(const Tensor& x, const Tensor& state, const Parameter& weight_hh) {
  if (state.defined()) return x.dim() == 1 ? state.unsqueeze(0) : state;
  return zeros({x.dim() == 1 ? 1 : x.size(0), weight_hh.size(1)}, x.options());
}

Tensor stepped(const CellParameters& cell, decltype(&gru_cell) step, const Tensor& x, const Tensor& h) {
  const Tensor next = step(x.dim() == 1 ? x.unsqueeze(0) : x, state_for(x, h, cell.weight_hh), cell.weight_ih,
                           cell.weight_hh, tensor_or_none(cell.bias_ih), tensor_or_none(cell.bias_hh));
  return x.dim() == 1 ? next.squeeze(0) : next;
}

}  // namespace

CellParameters::CellParameters(const char* cell, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
                               const CellOptions& options) {
  if (input_size < 1 || hidden_size < 1)
    throw InvalidArgument(text("[", cell, "] expected sizes of at least 1, got ", input_size, " and ", hidden_size));
  const auto parameter = [&](const Shape& sizes) {
    return uniform_parameter(sizes, double(hidden_size), options.tensor);
  };
  weight_ih = parameter({gates * hidden_size, input_size});
  weight_hh = parameter({gates * hidden_size, hidden_size});
  if (!options.bias) return;
  bias_ih = parameter({gates * hidden_size});
  bias_hh = parameter({gates * hidden_size});
}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options)
    : CellParameters("RNNCell", 1, input_size, hidden_size, {.bias = options.bias, .tensor = options.tensor}),
      nonlinearity_(options.nonlinearity) {}
GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, const CellOptions& options)
    : CellParameters("GRUCell", 3, input_size, hidden_size, options) {}
LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const CellOptions& options)
    : CellParameters("LSTMCell", 4, input_size, hidden_size, options) {}

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
                   tensor_or_none(bias_ih), tensor_or_none(bias_hh));
}

}  // namespace lockstep::nn
