// Recurrent layers; the inputs of a case include their parameters.
#include <lockstep/nn/recurrent.h>

#include "nn/each_state.h"
#include "reference/rows.h"

namespace lockstep::reference {
namespace {

// Replaces a layer's parameters by a case's inputs, from the second one on.
void put_parameters(nn::ModuleBase& layer, const Call& c) {
  std::size_t at = 0;
  nn::for_each_state(layer,
                     [&](const nn::Path&, nn::Parameter& parameter) { static_cast<Tensor&>(parameter) = c[++at]; });
  if (at + 1 != c.inputs().size()) throw std::logic_error("a case has other parameters than the layer");
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
