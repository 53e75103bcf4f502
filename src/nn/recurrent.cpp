#include <lockstep/nn/recurrent.h>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/tensor/batch_shard.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "nn/layer_parameters.h"
#include "ops/recurrent/sequence.h"

namespace lockstep::nn {
namespace {

// Permutes dimension 1 of x.
Tensor reordered(const Tensor& x, const std::vector<std::int64_t>& order) {
  if (!x.defined() || order.empty()) return x;
  return index_select(x, 1, tensor(order, {.device = x.device()}));
}

// The options of an RNN or a GRU.
template <class Options>
LSTMOptions common(const Options& o) {
  return {o.num_layers, o.bias, o.batch_first, o.dropout, o.bidirectional, 0, o.tensor};
}

}  // namespace

// The layout of rows: time step by time step, one row of each sequence that has this step, in packed order.
struct RecurrentStack::Layout {
  std::vector<std::int64_t> sizes;  // rows of each step
  std::vector<std::int64_t> order;  // the batch index of each sequence in packed order; empty if it is the batch's
                                    // order
  bool is_padded() const { return order.empty() && sizes.front() == sizes.back(); }

  // The index of each row in [steps, batch], flattened.
  std::vector<std::int64_t> places() const {
    std::vector<std::int64_t> places;
    for (std::size_t step = 0; step < sizes.size(); ++step)
      for (std::int64_t i = 0; i < sizes[step]; ++i)
        places.push_back(std::int64_t(step) * sizes.front() + (order.empty() ? i : order[std::size_t(i)]));
    return places;
  }
};

RecurrentStack::RecurrentStack(const Settings& settings) : settings_(settings) {
  const auto& [kind, input_size, hidden_size, options] = settings_;
  if (input_size < 1 || hidden_size < 1 || options.num_layers < 1)
    throw InvalidArgument(text("[", name(), "] expected sizes and layers of at least 1, got ", input_size, " and ",
                               hidden_size, ", ", options.num_layers, " layers"));
  if (!(options.dropout >= 0 && options.dropout <= 1))
    throw InvalidArgument(text("[", name(), "] expected a dropout from 0 to 1, got ", options.dropout));
  if (options.proj_size < 0 || options.proj_size >= hidden_size)
    throw InvalidArgument(
        text("[", name(), "] expected a proj_size from 0 to below ", hidden_size, ", got ", options.proj_size));
  const auto parameter = [&](const Shape& sizes) {
    return uniform_parameter(sizes, double(settings_.hidden_size), settings_.options.tensor);
  };
  const std::int64_t wide = recurrent::gates_of(kind) * hidden_size, directions = options.bidirectional ? 2 : 1;
  const std::int64_t out = options.proj_size ? options.proj_size : hidden_size;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer)
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      RecurrentWeights& weights = weights_.emplace_back();
      weights.weight_ih = parameter({wide, layer == 0 ? input_size : out * directions});
      weights.weight_hh = parameter({wide, out});
      if (options.bias) {
        weights.bias_ih = parameter({wide});
        weights.bias_hh = parameter({wide});
      }
      if (options.proj_size) weights.weight_hr = parameter({out, hidden_size});
    }
}

const char* RecurrentStack::name() const {
  return settings_.kind == RecurrentKind::lstm ? "LSTM" : settings_.kind == RecurrentKind::gru ? "GRU" : "RNN";
}

RecurrentWeights& RecurrentStack::weights(std::int64_t layer, bool reverse) {
  const auto& options = settings_.options;
  if (layer < 0 || layer >= options.num_layers || (reverse && !options.bidirectional))
    throw InvalidArgument(text("[", name(), "] expected one of ", options.num_layers, " layers",
                               options.bidirectional ? "" : " in one direction", ", got layer ", layer,
                               reverse ? " in reverse" : ""));
  return weights_[std::size_t(options.bidirectional ? 2 * layer + reverse : layer)];
}

void RecurrentStack::visit(const Path& path, Visitor& visitor) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const bool both = settings_.options.bidirectional;
    const std::string suffix = "_l" + std::to_string(both ? i / 2 : i) + (both && i % 2 ? "_reverse" : "");
    const auto visit_one = [&](const char* kind, Parameter& parameter) {
      const std::string full = kind + suffix;
      visitor.parameter(Path(path, full), parameter);
    };
    RecurrentWeights& weights = weights_[i];
    visit_one("weight_ih", weights.weight_ih);
    visit_one("weight_hh", weights.weight_hh);
    if (weights.bias_ih) visit_one("bias_ih", *weights.bias_ih);
    if (weights.bias_hh) visit_one("bias_hh", *weights.bias_hh);
    if (weights.weight_hr) visit_one("weight_hr", *weights.weight_hr);
  }
  visitor.setting(Path(path, "dropout"), &settings_.options.dropout, sizeof settings_.options.dropout);
}

void RecurrentStack::check_state(const char* what, const Tensor& state, std::int64_t batch, std::int64_t width) const {
  const Shape expected = {std::int64_t(weights_.size()), batch, width};
  if (state.defined() && state.sizes() != expected)
    throw ShapeError(
        text("[", name(), "] expected an initial ", what, " of shape ", expected, ", got ", state.sizes()));
}

// Applies dropout. The mask of a row depends only on the place of its sequence in the whole batch and on the time step,
// but not on the number of devices, nor on how the other sequences of the shard are sorted and padded.
Tensor RecurrentStack::dropped(const Tensor& data, const Layout& layout, double p) {
  const std::int64_t batch = layout.sizes.front(), steps = std::int64_t(layout.sizes.size()), width = data.size(1);
  const BatchDim second(1);
  if (layout.is_padded()) return dropout(data.view({steps, batch, width}), p).view(data.sizes());
  const Tensor kept = dropout(ones({steps, batch, width}, data.options()), p);
  return data * index_select(kept.view({steps * batch, width}), 0, tensor(layout.places(), {.device = data.device()}));
}

// data: [rows, in]. The result's output: [rows, directions * hidden].
LSTMOutput RecurrentStack::run_layers(Tensor data, const Layout& layout, const Tensor& h, const Tensor& c,
                                      bool training) const {
  const auto& [kind, input_size, hidden_size, options] = settings_;
  const std::int64_t batch = layout.sizes.front();
  check_state("h", h, batch, options.proj_size ? options.proj_size : hidden_size);
  check_state("c", c, batch, hidden_size);
  if (kind == RecurrentKind::lstm && h.defined() != c.defined())
    throw InvalidArgument("[LSTM] expected both initial states h and c, or neither, got only one");
  const std::size_t directions = options.bidirectional ? 2 : 1;
  const recurrent::Steps forward(layout.sizes, false), backward(layout.sizes, true);
  std::vector<Tensor> last_h, last_c;
  for (std::size_t first = 0; first < weights_.size(); first += directions) {
    if (first > 0 && options.dropout > 0 && training) data = dropped(data, layout, options.dropout);
    std::vector<Tensor> outputs;
    for (std::size_t direction = 0; direction < directions; ++direction) {
      const RecurrentWeights& w = weights_[first + direction];
      const auto nth = std::int64_t(first + direction);
      const recurrent::Inputs inputs = {data,
                                        h.defined() ? h.select(0, nth) : Tensor(),
                                        c.defined() ? c.select(0, nth) : Tensor(),
                                        w.weight_ih,
                                        w.weight_hh,
                                        tensor_or_none(w.bias_ih),
                                        tensor_or_none(w.bias_hh),
                                        tensor_or_none(w.weight_hr)};
      const recurrent::Outputs out = recurrent::run(name(), kind, inputs, direction == 0 ? forward : backward);
      outputs.push_back(out.output);
      last_h.push_back(out.h);
      if (out.c.defined()) last_c.push_back(out.c);
    }
    data = directions == 1 ? outputs[0] : cat(outputs, 1);
  }
  return {data, stack(last_h), last_c.empty() ? Tensor() : stack(last_c)};
}

LSTMOutput RecurrentStack::run(const Tensor& x, const Tensor& h, const Tensor& c, bool training) const {
  if (x.dim() == 2) {  // one sequence
    const auto as_batch = [](const Tensor& t) { return t.defined() ? t.unsqueeze(1) : t; };
    const bool first = settings_.options.batch_first;
    const BatchDim none(std::nullopt);
    LSTMOutput out = run(x.unsqueeze(first ? 0 : 1), as_batch(h), as_batch(c), training);
    return {out.output.squeeze(first ? 0 : 1), out.h.squeeze(1), out.c.defined() ? out.c.squeeze(1) : out.c};
  }
  const bool batch_first = settings_.options.batch_first;
  if (x.dim() != 3 || x.size(2) != settings_.input_size)
    throw ShapeError(text("[", name(), "] expected x ", batch_first ? "[batch, steps, " : "[steps, batch, ",
                          settings_.input_size, "] or [steps, ", settings_.input_size, "], got ", x.sizes()));
  const Tensor by_step = batch_first ? x.transpose(0, 1) : x;
  const std::int64_t steps = by_step.size(0), batch = by_step.size(1);
  if (steps == 0) throw ShapeError(text("[", name(), "] expected at least one step, got ", x.sizes()));
  const Layout layout = {std::vector(std::size_t(steps), batch), {}};
  LSTMOutput out = run_layers(by_step.reshape({steps * batch, x.size(2)}), layout, h, c, training);
  const Tensor output = out.output.view({steps, batch, out.output.size(1)});
  return {batch_first ? output.transpose(0, 1) : output, out.h, out.c};
}

PackedLSTMOutput RecurrentStack::run(const PackedSequence& x, const Tensor& h, const Tensor& c, bool training) const {
  if (x.batch_sizes.empty()) throw InvalidArgument(text("[", name(), "] expected at least one step, got none"));
  std::int64_t rows = 0;
  for (const std::int64_t size : x.batch_sizes) rows += size;
  if (x.data.dim() != 2 || x.data.size(0) != rows)
    throw ShapeError(
        text("[", name(), "] expected packed data [", rows, ", ", settings_.input_size, "], got ", x.data.sizes()));
  const LSTMOutput out = run_layers(x.data, {x.batch_sizes, x.sorted_indices}, reordered(h, x.sorted_indices),
                                    reordered(c, x.sorted_indices), training);
  return {{out.output, x.batch_sizes, x.sorted_indices, x.unsorted_indices},
          reordered(out.h, x.unsorted_indices),
          reordered(out.c, x.unsorted_indices)};
}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : RecurrentLayer({options.nonlinearity == Nonlinearity::relu ? RecurrentKind::rnn_relu : RecurrentKind::rnn_tanh,
                      input_size, hidden_size, common(options)}) {}
GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const GRUOptions& options)
    : RecurrentLayer({RecurrentKind::gru, input_size, hidden_size, common(options)}) {}
LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const LSTMOptions& options)
    : RecurrentLayer({RecurrentKind::lstm, input_size, hidden_size, options}) {}

RNNOutput RNN::forward(const Tensor& x, const Tensor& h) const {
  const LSTMOutput out = stack_.run(x, h, {}, is_training());
  return {out.output, out.h};
}
PackedRNNOutput RNN::forward(const PackedSequence& x, const Tensor& h) const {
  const PackedLSTMOutput out = stack_.run(x, h, {}, is_training());
  return {out.output, out.h};
}
RNNOutput GRU::forward(const Tensor& x, const Tensor& h) const {
  const LSTMOutput out = stack_.run(x, h, {}, is_training());
  return {out.output, out.h};
}
PackedRNNOutput GRU::forward(const PackedSequence& x, const Tensor& h) const {
  const PackedLSTMOutput out = stack_.run(x, h, {}, is_training());
  return {out.output, out.h};
}
LSTMOutput LSTM::forward(const Tensor& x, const Tensor& h, const Tensor& c) const {
  return stack_.run(x, h, c, is_training());
}
PackedLSTMOutput LSTM::forward(const PackedSequence& x, const Tensor& h, const Tensor& c) const {
  return stack_.run(x, h, c, is_training());
}

}  // namespace lockstep::nn
