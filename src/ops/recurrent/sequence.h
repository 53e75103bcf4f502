// One direction of one recurrent layer over a batch of sequences, as one operation: the base of the layers and cells of
// lockstep::nn.
//
// One tensor [rows, features] holds the steps of all sequences: the first step of every sequence, then the second step
// of every sequence that has one, and so on; longer sequences come first. (Sequences of one length: [steps, batch,
// features], flattened. Otherwise: nn::PackedSequence.)
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/ops/recurrent.h>

#include "tensor/tensor_impl.h"

namespace lockstep::recurrent {

using Kind = RecurrentKind;

/// The number of gates: the weights have gates_of(kind) * hidden rows.
inline std::int64_t gates_of(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

/// The rows of each step, and the order of the steps.
class Steps {
 public:
  /// sizes: the number of rows in each time step. There is at least one step, and no step has more rows than the one
  /// before.
  Steps(std::vector<std::int64_t> sizes, bool reverse) : sizes_(std::move(sizes)), reverse_(reverse) {
    for (const std::int64_t size : sizes_) offsets_.push_back(offsets_.back() + size);
  }

  std::int64_t count() const { return std::int64_t(sizes_.size()); }
  std::int64_t batch() const { return sizes_.front(); }
  std::int64_t total() const { return offsets_.back(); }
  bool even() const { return sizes_.front() == sizes_.back(); }
  bool reverse() const { return reverse_; }
  std::int64_t taken(std::int64_t nth) const { return reverse_ ? count() - 1 - nth : nth; }
  std::int64_t size(std::int64_t step) const { return sizes_[std::size_t(step)]; }
  std::int64_t offset(std::int64_t step) const { return offsets_[std::size_t(step)]; }

 private:
  std::vector<std::int64_t> sizes_, offsets_ = {0};
  bool reverse_;
};

/// The inputs of a sequence. Some may be undefined: both biases (then there is no bias), h and c (then they are zeros;
/// c is for LSTMs only), and weight_hr (then there is no projection).
enum Input : std::size_t { kX, kH, kC, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kWeightHr, kInputs };
using Inputs = std::array<Tensor, kInputs>;

struct Outputs {
  Tensor output;  ///< [rows, hidden], in x's order.
  Tensor h;       ///< [batch, hidden], after each sequence's last step. May share memory with `output`.
  Tensor c;       ///< The cell state of an LSTM: [batch, hidden], after each sequence's last step; else undefined.
};

/// Runs the fused form: one product for all inputs, and for each step one product and one kernel. With a weight_hr it
/// runs composed(). Differentiable to any order. Throws DeviceMismatch, DTypeError or ShapeError naming `op` if an
/// input does not fit.
Outputs run(const char* op, Kind kind, const Inputs& inputs, const Steps& steps);

/// The fused form of each kind. run_lstm() takes no weight_hr.
Outputs run_rnn_tanh(const Inputs& inputs, const Steps& steps);
Outputs run_rnn_relu(const Inputs& inputs, const Steps& steps);
Outputs run_gru(const Inputs& inputs, const Steps& steps);
Outputs run_lstm(const Inputs& inputs, const Steps& steps);

/// Runs the sequence as a composition of other operations.
Outputs composed(Kind kind, const Inputs& inputs, const Steps& steps);

/// The argument checks of run().
void check_sequence(const char* op, Kind kind, const Inputs& inputs, std::int64_t batch);

/// Views, not recorded: the rows [first, first + count), and the nth block of `width` columns.
inline Tensor row_range(const Tensor& x, std::int64_t first, std::int64_t count) {
  return make_view(x, {count, x.sizes()[1]}, x.strides(), x.impl()->offset + first * x.strides()[0]);
}
inline Tensor column_part(const Tensor& x, std::int64_t nth, std::int64_t width) {
  return make_view(x, {x.sizes()[0], width}, x.strides(), x.impl()->offset + nth * width * x.strides()[1]);
}
inline Tensor step_rows(const Tensor& x, const Steps& steps, std::int64_t step) {
  return row_range(x, steps.offset(step), steps.size(step));
}

}  // namespace lockstep::recurrent
