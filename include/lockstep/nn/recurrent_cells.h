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

/// The parameters of a cell, under PyTorch's names.
class LOCKSTEP_API CellParameters {
 public:
  Parameter weight_ih, weight_hh;             ///< The weights of x and of h.
  std::optional<Parameter> bias_ih, bias_hh;  ///< Nullopt without bias.

  auto members() {
    return nn::members("weight_ih", weight_ih, "weight_hh", weight_hh, "bias_ih", bias_ih, "bias_hh", bias_hh);
  }

 protected:
  /// gates: the number of gates; the weights have gates * hidden_size rows. Throws InvalidArgument naming the cell for
  /// sizes below 1.
  CellParameters(const char* cell, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
                 const CellOptions& options);
};

/// Computes the next h from x [batch, in] and h [batch, hidden]; or for one row, [in] and [hidden]. h is 0 by default.
/// The constructor throws InvalidArgument for sizes below 1; forward throws ShapeError, DTypeError, DeviceMismatch.
class LOCKSTEP_API RNNCell : public Module<RNNCell>, public CellParameters {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(RNNCell);
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;

 private:
  Nonlinearity nonlinearity_;
};

class LOCKSTEP_API GRUCell : public Module<GRUCell>, public CellParameters {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const CellOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(GRUCell);
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;
};

/// Computes the next state from x and the state: state = cell(x, state). A state is h and c.
class LOCKSTEP_API LSTMCell : public Module<LSTMCell>, public CellParameters {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const CellOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(LSTMCell);
  LSTMState forward(const Tensor& x, const LSTMState& state = {}) const;
};

}  // namespace lockstep::nn
