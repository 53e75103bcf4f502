// One direction of one recurrent layer over a batch of sequences, as one operation: what the layers and the cells of
// lockstep::nn are made of.
//
// The steps of all sequences lie in one tensor [rows, features]: first the first step of every sequence, then the
// second of every sequence that has one, and so on; longer sequences come first. (Sequences of one length: [steps,
// batch, features], flattened. Otherwise: nn::PackedSequence.)
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/ops/recurrent.h>

#include "tensor/tensor_impl.h"

namespace lockstep::recurrent {

using Kind = RecurrentKind;

/// How many sizes of the hidden state the rows of weights count.
inline std::int64_t gates_of(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

/// Which rows belong to which step, and the order in which steps are taken.
class Steps {
 public:
  /// sizes: the rows of each step, at least one step, never more rows than in the step before.
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

/// What a sequence is computed from. Undefined: both biases, for none; h and c, for zeros (c but for LSTM); weight_hr,
/// for no projection.
enum Input : std::size_t { kX, kH, kC, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kWeightHr, kInputs };
using Inputs = std::array<Tensor, kInputs>;

struct Outputs {
  Tensor output;  ///< [rows, hidden], in x's order.
  Tensor h;       ///< [batch, hidden], after each sequence's last step. May share memory with `output`.
  Tensor c;       ///< The same of an LSTM's cells; else undefined.
};

/// Fused: one product for all inputs, and for each step a product and one kernel. Differentiable to any order.
/// DeviceMismatch, DTypeError or ShapeError name `op` for what does not fit.
Outputs run(const char* op, Kind kind, const Inputs& inputs, const Steps& steps);

/// The same, composed from operations.
Outputs composed(Kind kind, const Inputs& inputs, const Steps& steps);

/// What run() checks.
void check_sequence(const char* op, Kind kind, const Inputs& inputs, std::int64_t batch);

/// Views, not recorded: rows [first, first + count), and the nth part of the columns, `width` wide.
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
