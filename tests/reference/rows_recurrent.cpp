// Recurrent layers; the inputs of a case include their parameters.
#include <lockstep/nn/recurrent.h>

#include "reference/rows.h"

namespace lockstep::reference {
namespace {

// Replaces a layer's parameters by a case's inputs, from the second one on.
class PutParameters : public nn::Visitor {
 public:
  explicit PutParameters(const Call& call) : call_(call) {}
  void parameter(const nn::Path&, nn::Parameter& parameter) override {
    Tensor& handle = parameter;
    handle = call_[++at_];
  }
  std::size_t at() const { return at_; }

 private:
  const Call& call_;
  std::size_t at_ = 0;
};

template <class Layer>
void put_parameters(Layer& layer, const Call& c) {
  PutParameters put(c);
  layer.visit({}, put);
  if (put.at() + 1 != c.inputs().size()) throw std::logic_error("a case has other parameters than the layer");
}

// A case without biases has two parameters for each layer and direction, or three with a projection.
template <class Options>
Options options_of(const Call& c) {
  Options options;
  options.num_layers = c.integer("num_layers");
  options.batch_first = c.flag("batch_first");
  options.bidirectional = c.flag("bidirectional");
  const std::int64_t stacks = options.num_layers * (options.bidirectional ? 2 : 1);
  options.bias = std::int64_t(c.inputs().size()) - 1 > 3 * stacks;
  return options;
}

Outputs rnn(const Call& c) {
  auto options = options_of<nn::RNNOptions>(c);
  if (c.arg<std::string>("nonlinearity", "tanh") == "relu") options.nonlinearity = nn::Nonlinearity::relu;
  nn::RNN layer(c.integer("input_size"), c.integer("hidden_size"), options);
  put_parameters(layer, c);
  const nn::RNNOutput out = layer(c[0]);
  return std::vector{out.output, out.h};
}

Outputs gru(const Call& c) {
  nn::GRU layer(c.integer("input_size"), c.integer("hidden_size"), options_of<nn::GRUOptions>(c));
  put_parameters(layer, c);
  const nn::RNNOutput out = layer(c[0]);
  return std::vector{out.output, out.h};
}

Outputs lstm(const Call& c) {
  auto options = options_of<nn::LSTMOptions>(c);
  options.proj_size = c.arg<std::int64_t>("proj_size", 0);
  nn::LSTM layer(c.integer("input_size"), c.integer("hidden_size"), options);
  put_parameters(layer, c);
  const nn::LSTMOutput out = layer(c[0]);
  return std::vector{out.output, out.h, out.c};
}

}  // namespace

void add_recurrent_rows(Table& table) { table.merge(Table{{"rnn", rnn}, {"gru", gru}, {"lstm", lstm}}); }

}  // namespace lockstep::reference
