// RNN, LSTM and GRU: layers of recurrent cells over whole sequences, with PyTorch's names of parameters (weight_ih_l0,
// weight_hh_l0_reverse, ...). lockstep/ops/recurrent.h documents the cells; all parameters start uniform in
// +-1/sqrt(hidden). Single steps: recurrent_cells.h.
//
//   nn::LSTM lstm(128, 256, {.num_layers = 2, .batch_first = true});
//   Tensor last = lstm(x).output.select(1, -1);
//
// x is [steps, batch, in], with batch_first [batch, steps, in], or for a single sequence [steps, in]. States are
// [layers * directions, batch, hidden] (without batch for a single sequence); initial states are 0 by default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/core/choice.h>
#include <lockstep/nn/module.h>
#include <lockstep/nn/packed_sequence.h>
#include <lockstep/ops/recurrent.h>

namespace lockstep::nn {

/// The nonlinearity that computes the h of an RNN.
enum class Nonlinearity : std::uint8_t { tanh, relu };

}  // namespace lockstep::nn

template <>
struct lockstep::ChoiceNames<lockstep::nn::Nonlinearity> {
  static constexpr const char* kOption = "nonlinearity";
  static constexpr std::string_view kNames[] = {"tanh", "relu"};
};

namespace lockstep::nn {

struct RNNOptions {
  std::int64_t num_layers = 1;
  Choice<Nonlinearity> nonlinearity = Nonlinearity::tanh;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;          ///< Dropout of the outputs of all layers except the last, in training.
  bool bidirectional = false;  ///< Concatenates the outputs of both directions.
  TensorOptions tensor = {};   ///< Device and dtype of the parameters.
};

struct GRUOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  TensorOptions tensor = {};
};

struct LSTMOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  std::int64_t proj_size = 0;  ///< If > 0: h is projected to this size by weight_hr (Sak, Senior, Beaufays 2014).
  TensorOptions tensor = {};
};

/// The results of RNN and GRU.
struct RNNOutput {
  Tensor output;  ///< The last layer's h at each step: [steps, batch, directions * hidden], in x's layout.
  Tensor h;       ///< Each layer's and direction's h after its last step.
  auto members() { return nn::members("output", output, "h", h); }
};
/// The results of LSTM.
struct LSTMOutput {
  Tensor output, h, c;  ///< As in RNNOutput; c has h's layout.
  auto members() { return nn::members("output", output, "h", h, "c", c); }
};
/// Results for packed sequences.
struct PackedRNNOutput {
  PackedSequence output;  ///< The last layer's h at each step.
  Tensor h;               ///< As in RNNOutput.
};
/// Results for packed sequences.
struct PackedLSTMOutput {
  PackedSequence output;  ///< The last layer's h at each step.
  Tensor h, c;            ///< As in LSTMOutput.
};

/// The parameters of one layer in one direction.
struct RecurrentWeights {
  Parameter weight_ih, weight_hh;                        ///< The weights of x and of h.
  std::optional<Parameter> bias_ih, bias_hh, weight_hr;  ///< Nullopt if bias is false (weight_hr: if proj_size is 0).
};

/// The layers and parameters of an RNN, LSTM or GRU, and the computation over a whole sequence.
class LOCKSTEP_API RecurrentStack {
 public:
  /// The construction arguments of a stack.
  struct Settings {
    RecurrentKind kind;
    std::int64_t input_size, hidden_size;
    LSTMOptions options;
  };
  /// Throws InvalidArgument for sizes below 1, a dropout outside [0, 1] and a proj_size outside [0, hidden_size).
  explicit RecurrentStack(const Settings& settings);
  LOCKSTEP_COPIED_IF_ASKED(RecurrentStack);

  /// Runs all layers. An undefined initial state stands for 0.
  LSTMOutput run(const Tensor& x, const Tensor& h, const Tensor& c, bool training) const;
  PackedLSTMOutput run(const PackedSequence& x, const Tensor& h, const Tensor& c, bool training) const;
  /// Throws InvalidArgument for a layer that does not exist.
  RecurrentWeights& weights(std::int64_t layer, bool reverse);
  /// Visits the parameters, under PyTorch's names.
  void visit(const Path& path, Visitor& visitor);

 private:
  struct Layout;
  static Tensor dropped(const Tensor& data, const Layout& layout, double p);
  LSTMOutput run_layers(Tensor data, const Layout& layout, const Tensor& h, const Tensor& c, bool training) const;
  void check_state(const char* name, const Tensor& state, std::int64_t batch, std::int64_t width) const;
  const char* name() const;

  Settings settings_;
  std::vector<RecurrentWeights> weights_;  // by layer and, within a layer, by direction
};

namespace detail {

/// The base of RNN, LSTM and GRU: a module that holds a RecurrentStack.
template <class Self>
class RecurrentLayer : public Module<Self> {
 public:
  /// Throws InvalidArgument for a layer that does not exist.
  RecurrentWeights& weights(std::int64_t layer = 0, bool reverse = false) { return stack_.weights(layer, reverse); }
  void visit(const Path& path, Visitor& visitor) override {
    visitor.module(path, *this);
    stack_.visit(path, visitor);
  }

 protected:
  explicit RecurrentLayer(const RecurrentStack::Settings& settings) : stack_(settings) {}
  RecurrentStack stack_;
};

}  // namespace detail

/// forward() takes x as a Tensor or a PackedSequence; the top of this file describes shapes. Throws ShapeError,
/// DTypeError and DeviceMismatch naming the layer.
class LOCKSTEP_API RNN : public detail::RecurrentLayer<RNN> {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(RNN);
  RNNOutput forward(const Tensor& x, const Tensor& h = {}) const;
  PackedRNNOutput forward(const PackedSequence& x, const Tensor& h = {}) const;
};

/// Like RNN: forward() takes x as a Tensor or a PackedSequence, and throws the same errors.
class LOCKSTEP_API GRU : public detail::RecurrentLayer<GRU> {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const GRUOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(GRU);
  RNNOutput forward(const Tensor& x, const Tensor& h = {}) const;
  PackedRNNOutput forward(const PackedSequence& x, const Tensor& h = {}) const;
};

/// Pass both initial h and c, or neither; otherwise forward() throws InvalidArgument.
class LOCKSTEP_API LSTM : public detail::RecurrentLayer<LSTM> {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const LSTMOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(LSTM);
  LSTMOutput forward(const Tensor& x, const Tensor& h = {}, const Tensor& c = {}) const;
  /// Takes h and c as one state, as in libtorch.
  LSTMOutput forward(const Tensor& x, const std::tuple<Tensor, Tensor>& state) const {
    return forward(x, std::get<0>(state), std::get<1>(state));
  }
  PackedLSTMOutput forward(const PackedSequence& x, const Tensor& h = {}, const Tensor& c = {}) const;
};

}  // namespace lockstep::nn
