// Single steps of recurrent layers: nn::LSTMCell and its relatives. lockstep/ops/recurrent.h documents the formulas.
// All parameters start uniform in +-1/sqrt(hidden).
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/nn/recurrent.h>

namespace lockstep::nn {

struct RNNCellOptions {
  Nonlinearity nonlinearity = Nonlinearity::tanh;
  bool bias = true;
  TensorOptions tensor = {};  ///< Device and dtype of the parameters.
};
struct CellOptions {
  bool bias = true;
  TensorOptions tensor = {};
};

/// Computes the next h from x [batch, in] and h [batch, hidden]; or for one row, [in] and [hidden]. h is 0 by default.
/// The constructor throws InvalidArgument for sizes below 1; forward throws ShapeError, DTypeError, DeviceMismatch.
class LOCKSTEP_API RNNCell : public Module<RNNCell> {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(RNNCell);

  Parameter weight_ih, weight_hh;             ///< The weights of x and of h.
  std::optional<Parameter> bias_ih, bias_hh;  ///< Nullopt without bias.

  auto members() {
    return nn::members("weight_ih", weight_ih, "weight_hh", weight_hh, "bias_ih", bias_ih, "bias_hh", bias_hh);
  }
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;

 private:
  Nonlinearity nonlinearity_;
};

class LOCKSTEP_API GRUCell : public Module<GRUCell> {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const CellOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(GRUCell);

  Parameter weight_ih, weight_hh;             ///< The weights of x and of h.
  std::optional<Parameter> bias_ih, bias_hh;  ///< Nullopt without bias.

  auto members() {
    return nn::members("weight_ih", weight_ih, "weight_hh", weight_hh, "bias_ih", bias_ih, "bias_hh", bias_hh);
  }
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;
};

/// state = cell(x, state), where the state is h and c.
class LOCKSTEP_API LSTMCell : public Module<LSTMCell> {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const CellOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(LSTMCell);

  Parameter weight_ih, weight_hh;             ///< The weights of x and of h.
  std::optional<Parameter> bias_ih, bias_hh;  ///< Nullopt without bias.

  auto members() {
    return nn::members("weight_ih", weight_ih, "weight_hh", weight_hh, "bias_ih", bias_ih, "bias_hh", bias_hh);
  }
  LSTMState forward(const Tensor& x, const LSTMState& state = {}) const;
};

}  // namespace lockstep::nn
