// RNN, LSTM and GRU: layers of recurrent cells over whole sequences, with PyTorch's names of parameters (weight_ih_l0,
// weight_hh_l0_reverse, ...). What a cell computes is said in lockstep/ops/recurrent.h; all parameters start uniform in
// +-1/sqrt(hidden). Single steps: recurrent_cells.h.
//
//   nn::LSTM lstm(128, 256, {.num_layers = 2, .batch_first = true});
//   Tensor last = lstm(x).output.select(1, -1);
//
// x is [steps, batch, in], with batch_first [batch, steps, in], or of one sequence [steps, in]. States are
// [layers * directions, batch, hidden] (without batch of one sequence), the initial ones 0 where left out.
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

/// What h of an RNN goes through.
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
  double dropout = 0;          ///< In training, of each layer's outputs but the last's.
  bool bidirectional = false;  ///< Outputs of both directions side by side.
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
  std::int64_t proj_size = 0;  ///< h becomes weight_hr h, of this size (Sak, Senior, Beaufays 2014).
  TensorOptions tensor = {};
};

/// What RNN and GRU give.
struct RNNOutput {
  Tensor output;  ///< Of the last layer at each step: [steps, batch, directions * hidden], or as x is laid out.
  Tensor h;       ///< Of each layer and direction after its last step.
  auto members() { return nn::members("output", output, "h", h); }
};
/// What LSTM gives.
struct LSTMOutput {
  Tensor output, h, c;  ///< As RNNOutput's; c as h.
  auto members() { return nn::members("output", output, "h", h, "c", c); }
};
/// Of packed sequences.
struct PackedRNNOutput {
  PackedSequence output;  ///< Of the last layer.
  Tensor h;               ///< As RNNOutput's.
};
/// Of packed sequences.
struct PackedLSTMOutput {
  PackedSequence output;  ///< Of the last layer.
  Tensor h, c;            ///< As LSTMOutput's.
};

/// The parameters of one layer in one direction.
struct RecurrentWeights {
  Parameter weight_ih, weight_hh;                        ///< Of x and of h.
  std::optional<Parameter> bias_ih, bias_hh, weight_hr;  ///< Where the layer has them.
};

/// What RNN, LSTM and GRU have in common.
class LOCKSTEP_API RecurrentStack {
 public:
  /// What a stack is made of.
  struct Settings {
    RecurrentKind kind;
    std::int64_t input_size, hidden_size;
    LSTMOptions options;
  };
  /// Throws InvalidArgument for sizes below 1, a dropout outside [0, 1] and a proj_size outside [0, hidden_size).
  explicit RecurrentStack(const Settings& settings);
  LOCKSTEP_COPIED_IF_ASKED(RecurrentStack);

  /// Runs all layers. States may be undefined.
  LSTMOutput run(const Tensor& x, const Tensor& h, const Tensor& c, bool training) const;
  PackedLSTMOutput run(const PackedSequence& x, const Tensor& h, const Tensor& c, bool training) const;
  /// Throws InvalidArgument for a layer that is not there.
  RecurrentWeights& weights(std::int64_t layer, bool reverse);
  /// Walks over the parameters, under PyTorch's names.
  void visit(const Path& path, Visitor& visitor);

 private:
  struct Layout;
  static Tensor dropped(const Tensor& data, const Layout& layout, double p);
  LSTMOutput run_layers(Tensor data, const Layout& layout, const Tensor& h, const Tensor& c, bool training) const;
  void check_state(const char* name, const Tensor& state, std::int64_t batch, std::int64_t width) const;
  const char* name() const;

  Settings settings_;
  std::vector<RecurrentWeights> weights_;  // layer by layer, both directions
};

/// x as Tensor or PackedSequence; the rest is said above. Throws ShapeError, DTypeError and DeviceMismatch naming the
/// layer.
class LOCKSTEP_API RNN : public Module<RNN> {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(RNN);
  RNNOutput forward(const Tensor& x, const Tensor& h = {}) const;
  PackedRNNOutput forward(const PackedSequence& x, const Tensor& h = {}) const;
  /// Throws InvalidArgument for a layer that is not there.
  RecurrentWeights& weights(std::int64_t layer = 0, bool reverse = false) { return stack_.weights(layer, reverse); }
  void visit(const Path& path, Visitor& visitor) override;

 private:
  RecurrentStack stack_;
};

class LOCKSTEP_API GRU : public Module<GRU> {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const GRUOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(GRU);
  RNNOutput forward(const Tensor& x, const Tensor& h = {}) const;
  PackedRNNOutput forward(const PackedSequence& x, const Tensor& h = {}) const;
  /// Throws InvalidArgument for a layer that is not there.
  RecurrentWeights& weights(std::int64_t layer = 0, bool reverse = false) { return stack_.weights(layer, reverse); }
  void visit(const Path& path, Visitor& visitor) override;

 private:
  RecurrentStack stack_;
};

/// The initial h and c are given both or not at all, else InvalidArgument.
class LOCKSTEP_API LSTM : public Module<LSTM> {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const LSTMOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(LSTM);
  LSTMOutput forward(const Tensor& x, const Tensor& h = {}, const Tensor& c = {}) const;
  /// With h and c as one state, as libtorch has it.
  LSTMOutput forward(const Tensor& x, const std::tuple<Tensor, Tensor>& state) const {
    return forward(x, std::get<0>(state), std::get<1>(state));
  }
  PackedLSTMOutput forward(const PackedSequence& x, const Tensor& h = {}, const Tensor& c = {}) const;
  /// Throws InvalidArgument for a layer that is not there.
  RecurrentWeights& weights(std::int64_t layer = 0, bool reverse = false) { return stack_.weights(layer, reverse); }
  void visit(const Path& path, Visitor& visitor) override;

 private:
  RecurrentStack stack_;
};

}  // namespace lockstep::nn
