#include <algorithm>

#include <lockstep/nn/recurrent.h>
#include <lockstep/ops/join.h>

#include "onnx/rows.h"

namespace lockstep::onnx {
namespace {

// Reorders the rows by gate: ONNX's order of gates is not PyTorch's.
Tensor reordered(const Tensor& rows, const std::vector<std::size_t>& order) {
  const std::vector<Tensor> gates = chunk(rows, std::int64_t(order.size()));
  std::vector<Tensor> sorted;
  for (const std::size_t gate : order) sorted.push_back(gates.at(gate));
  return cat(sorted);
}

void put(nn::Parameter& parameter, const Tensor& value) {
  Tensor& handle = parameter;
  handle = value;
}

template <class Layer>
void put_weights(Layer& layer, const Tensors& x, const std::vector<std::size_t>& order) {
  for (std::int64_t d = 0; d < x[1].size(0); ++d) {
    nn::RecurrentWeights& weights = layer.weights(0, d == 1);
    put(weights.weight_ih, reordered(x[1][d], order));
    put(weights.weight_hh, reordered(x[2][d], order));
    if (!weights.bias_ih) continue;
    const std::vector<Tensor> biases = chunk(x[3][d], 2);
    put(*weights.bias_ih, reordered(biases[0], order));
    put(*weights.bias_hh, reordered(biases[1], order));
  }
}

// The attributes that all three layers have.
struct Form {
  bool batch_first, bidirectional, bias;
  std::int64_t hidden_size;

  Form(const Node& node, const Tensors& x)
      : batch_first(node.integer("layout", 0) != 0),
        bidirectional(node.text("direction", "forward") == "bidirectional"),
        bias(input(x, 3).defined()),
        hidden_size(x[2].size(2)) {
    if (node.text("direction", "forward") == "reverse") throw NotApplicable("recurrence in reverse alone");
    for (const char* const name : {"activations", "activation_alpha", "activation_beta"})
      if (node.has(name)) throw NotApplicable(std::string("recurrence with ") + name);
    if (node.has("clip")) throw NotApplicable("recurrence with clip");
    if (input(x, 4).defined()) {
      const auto lengths = x[4].cpu().to(kInt64).to_vector<std::int64_t>();
      if (*std::min_element(lengths.begin(), lengths.end()) != x[0].size(batch_first ? 1 : 0))
        throw NotApplicable("outputs of sequences that have ended");
    }
  }

  template <class Options>
  Options options(const Tensors& x) const {
    Options options;
    options.bias = bias;
    options.batch_first = batch_first;
    options.bidirectional = bidirectional;
    options.tensor = {.dtype = x[0].dtype(), .device = x[0].device()};
    return options;
  }
  // [directions, batch, hidden]; in ONNX [batch, directions, hidden] if the batch comes first.
  Tensor state(const Tensor& state) const {
    return state.defined() && batch_first ? state.transpose(0, 1).contiguous() : state;
  }
  // [steps, directions, batch, hidden], or [batch, steps, directions, hidden].
  Tensor output(const Tensor& y) const {
    const std::int64_t directions = bidirectional ? 2 : 1;
    const Tensor split = y.reshape({y.size(0), y.size(1), directions, hidden_size});
    return batch_first ? split : split.transpose(1, 2);
  }
};

Tensors rnn(const Node& node, const Tensors& x) {
  const Form form(node, x);
  nn::RNN layer(x[0].size(2), form.hidden_size, form.options<nn::RNNOptions>(x));
  put_weights(layer, x, {0});
  const nn::RNNOutput out = layer(x[0], form.state(input(x, 5)));
  return {form.output(out.output), form.state(out.h)};
}

// By default ONNX applies the reset gate to the state before its product with the weight, PyTorch to the product. Both
// agree if the state is zero and the product's bias is zero.
void check_reset(const Node& node, const Tensors& x, const Form& form) {
  if (node.integer("linear_before_reset", 0) != 0) return;
  bool same = x[0].size(form.batch_first ? 1 : 0) == 1 && !input(x, 5).defined();
  if (form.bias)
    for (std::int64_t d = 0; d < x[3].size(0); ++d) {
      const Tensor bias = chunk(x[3][d], 6)[5].cpu().to(kFloat64);
      for (const double value : bias.to_vector<double>()) same = same && value == 0;
    }
  if (!same) throw NotApplicable("GRU that resets the state before the product");
}

Tensors gru(const Node& node, const Tensors& x) {
  const Form form(node, x);
  check_reset(node, x, form);
  nn::GRU layer(x[0].size(2), form.hidden_size, form.options<nn::GRUOptions>(x));
  put_weights(layer, x, {1, 0, 2});  // z r h
  const nn::RNNOutput out = layer(x[0], form.state(input(x, 5)));
  return {form.output(out.output), form.state(out.h)};
}

Tensors lstm(const Node& node, const Tensors& x) {
  const Form form(node, x);
  if (input(x, 7).defined()) throw NotApplicable("LSTM with peepholes");
  if (node.integer("input_forget", 0) != 0) throw NotApplicable("LSTM with input_forget");
  nn::LSTM layer(x[0].size(2), form.hidden_size, form.options<nn::LSTMOptions>(x));
  put_weights(layer, x, {0, 2, 3, 1});  // i o f c
  const nn::LSTMOutput out = layer(x[0], form.state(input(x, 5)), form.state(input(x, 6)));
  return {form.output(out.output), form.state(out.h), form.state(out.c)};
}

}  // namespace

void add_recurrent_rows(Table& table) { table.merge(Table{{"RNN", rnn}, {"GRU", gru}, {"LSTM", lstm}}); }

}  // namespace lockstep::onnx
