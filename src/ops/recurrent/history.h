// A state of a recurrent layer (h or c) before and after every time step.
#pragma once

#include "ops/recurrent/sequence.h"
#include "tensor/copy.h"

namespace lockstep::recurrent {

/// For sequences of one length, one tensor holds the initial state and the state after each step, so that nothing is
/// copied. Otherwise the current state is a separate tensor, whose rows stay unchanged once a sequence has ended.
class History {
 public:
  History() = default;
  /// The states of a sequence that has run: all_before() and all().
  History(const Tensor& before, const Tensor& after) : before_(before), after_(after) {}
  /// initial: [batch, width]; if undefined, the initial state is zeros.
  History(const Steps& steps, const Tensor& initial, DeviceState& device, DType dtype, std::int64_t width)
      : batch_(steps.batch()), forward_(!steps.reverse()), even_(steps.even()) {
    const std::int64_t total = steps.total();
    if (even_) {
      const Tensor whole = make_tensor(device, {total + batch_, width}, dtype);
      after_ = row_range(whole, forward_ ? batch_ : 0, total);
      before_ = row_range(whole, forward_ ? 0 : batch_, total);
      state_ = row_range(whole, forward_ ? 0 : total, batch_);
      last_ = row_range(whole, forward_ ? total : 0, batch_);
    } else {
      after_ = make_tensor(device, {total, width}, dtype);
      before_ = make_tensor(device, {total, width}, dtype);
      last_ = state_ = make_tensor(device, {batch_, width}, dtype);
    }
    if (initial.defined())
      copy_values(state_, initial);
    else
      fill_values(state_, 0);
  }

  /// Call begin() before a time step; then write the new state to after(); then call end().
  Tensor begin(const Steps& steps, std::int64_t step) const {
    const Tensor from = before(steps, step);
    if (!even_) copy_values(from, row_range(state_, 0, steps.size(step)));
    return from;
  }
  void end(const Steps& steps, std::int64_t step) const {
    if (!even_) copy_values(row_range(state_, 0, steps.size(step)), after(steps, step));
  }

  bool defined() const { return after_.defined(); }
  Tensor before(const Steps& steps, std::int64_t step) const { return step_rows(before_, steps, step); }
  Tensor after(const Steps& steps, std::int64_t step) const { return step_rows(after_, steps, step); }
  const Tensor& all_before() const { return before_; }
  const Tensor& all() const { return after_; }
  const Tensor& last() const { return last_; }

 private:
  std::int64_t batch_ = 0;
  bool forward_ = true, even_ = true;
  Tensor before_, after_, state_, last_;
};

}  // namespace lockstep::recurrent
