// A sequence (sequence.h) with one fused kernel for each time step. `Cell` is a type with
//   kGates                 the number of gates: the weights have kGates * hidden rows
//   kHasCell               true if it has a second state, c
//   kSeparateStateProduct  true if it needs the products of state and inputs separately, not their sum
//   forward(...)           one kernel: from the gates' sums to the gates and the state
//   backward(...)          one kernel: from the state's gradient to the gradients of the gates' sums
#pragma once

#include <utility>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>

#include "kernels/map/multi_output.h"
#include "ops/product.h"
#include "ops/record.h"
#include "ops/recurrent/history.h"
#include "ops/recurrent/sequence.h"

namespace lockstep::recurrent {

/// True if the cell may run all steps as one operation: forward_all(...), backward_all(...), which return false if they
/// cannot.
template <class Cell>
inline constexpr bool kHasFusedSequence = requires {
  &Cell::forward_all;
};

/// The rows of one time step, for the forward kernel. state_product is undefined unless the cell is
/// kSeparateStateProduct, c unless it has a cell state.
struct ForwardStep {
  Tensor gates;          ///< [rows, gates * hidden]: first the sums, then the gates.
  Tensor state_product;  ///< The product of h_before and weight_hh.
  Tensor h_before, h, c_before, c;
};

struct BackwardStep {
  ForwardStep of;
  Tensor d_gates;          ///< The gradient of the gates' sums, which the kernel writes.
  Tensor d_state_product;  ///< The gradient of state_product, which the kernel writes; undefined if state_product is.
  Tensor d_output;         ///< The gradient of h from the outputs.
  /// The gradient of h from the next step. If kSeparateStateProduct, the kernel overwrites it with the gradient of
  /// h_before, without the part through the state's product.
  Tensor dh;
  Tensor dc;  ///< The gradient of c, which the kernel overwrites with that of c_before.
};

/// The tensors that backward needs beside the inputs.
struct Kept {
  Tensor gates, state_product;  ///< Rows of all steps.
  History h, c;

  ForwardStep at(const Steps& steps, std::int64_t step) const {
    const auto of = [&](const Tensor& all) { return all.defined() ? step_rows(all, steps, step) : Tensor(); };
    return {of(gates), of(state_product), h.before(steps, step), h.after(steps, step), of(c.all_before()), of(c.all())};
  }
};

inline Tensor uninitialized(const Tensor& x, const Shape& sizes) {
  return make_tensor(*x.impl()->storage->device, sizes, x.dtype());
}
inline Tensor turned(const Tensor& x) {
  const Shape &sizes = x.sizes(), &strides = x.strides();
  return make_view(x, {sizes[1], sizes[0]}, {strides[1], strides[0]}, x.impl()->offset);
}
// A gradient to overwrite, [rows, columns]: a copy of the gradient that arrived, or zeros.
inline Tensor own_gradient(const Tensor& x, const Tensor& arrived, const Shape& sizes) {
  Tensor own = uninitialized(x, sizes);
  if (arrived.defined())
    copy_values(own, arrived);
  else
    fill_values(own, 0);
  return own;
}

template <class Cell>
Kept forward_pass(const Inputs& in, const Steps& steps) {
  const NoGrad guard;
  const std::int64_t wide = in[kWeightIh].sizes()[0], hidden = wide / Cell::kGates;
  const Tensor& x = in[kX];
  DeviceState& device = *x.impl()->storage->device;
  const auto dense = [](const Tensor& bias) { return bias.defined() ? bias.contiguous() : bias; };
  const bool sums = !Cell::kSeparateStateProduct && in[kBiasIh].defined();
  const Tensor bias = dense(sums ? in[kBiasIh] + in[kBiasHh] : in[kBiasIh]), bias_hh = dense(in[kBiasHh]);
  const Tensor weight_hh = turned(in[kWeightHh]);
  Kept kept = {uninitialized(x, {steps.total(), wide}),
               Cell::kSeparateStateProduct ? uninitialized(x, {steps.total(), wide}) : Tensor(),
               History(steps, in[kH], device, x.dtype(), hidden),
               {}};
  if (Cell::kHasCell) kept.c = History(steps, in[kC], device, x.dtype(), hidden);
  multiply(kept.gates, x, turned(in[kWeightIh]), {.bias = bias});
  if constexpr (kHasFusedSequence<Cell>)
    if (Cell::forward_all(in, steps, kept, hidden)) return kept;
  for (std::int64_t nth = 0; nth < steps.count(); ++nth) {
    const std::int64_t step = steps.taken(nth);
    kept.h.begin(steps, step);
    if (Cell::kHasCell) kept.c.begin(steps, step);
    const ForwardStep at = kept.at(steps, step);
    if (Cell::kSeparateStateProduct)
      multiply(at.state_product, at.h_before, weight_hh, {.bias = bias_hh});
    else
      multiply(at.gates, at.h_before, weight_hh, {.beta = 1});
    visit_floating(Cell::kName, x.dtype(), [&]<class T>() { Cell::template forward<T>(at, hidden); });
    kept.h.end(steps, step);
    if (Cell::kHasCell) kept.c.end(steps, step);
  }
  return kept;
}

// The gradients of all inputs. Gradients that are not needed are undefined.
template <class Cell>
Inputs backward_pass(const Inputs& in, const std::array<bool, kInputs>& needs, const std::array<int, kInputs>& slots,
                     const Steps& steps, const Kept& kept, const Gradients& arrived) {
  const Tensor& x = in[kX];
  const std::int64_t wide = in[kWeightIh].sizes()[0], hidden = wide / Cell::kGates;
  const Tensor d_output = arrived[0].defined() ? arrived[0] : own_gradient(x, {}, {steps.total(), hidden});
  const Tensor dh = own_gradient(x, arrived[1], {steps.batch(), hidden});
  const Tensor dc = Cell::kHasCell ? own_gradient(x, arrived[2], {steps.batch(), hidden}) : Tensor();
  const Tensor d_gates = uninitialized(x, {steps.total(), wide});
  const Tensor d_state_product = Cell::kSeparateStateProduct ? uninitialized(x, {steps.total(), wide}) : Tensor();
  bool done = false;
  if constexpr (kHasFusedSequence<Cell>) done = Cell::backward_all(in, steps, kept, d_output, dh, dc, d_gates);
  for (std::int64_t nth = done ? 0 : steps.count(); nth-- > 0;) {
    const std::int64_t step = steps.taken(nth), count = steps.size(step);
    const BackwardStep at = {kept.at(steps, step),
                             step_rows(d_gates, steps, step),
                             Cell::kSeparateStateProduct ? step_rows(d_state_product, steps, step) : Tensor(),
                             step_rows(d_output, steps, step),
                             row_range(dh, 0, count),
                             Cell::kHasCell ? row_range(dc, 0, count) : Tensor()};
    visit_floating(Cell::kName, x.dtype(), [&]<class T>() { Cell::template backward<T>(at, hidden); });
    if (nth > 0 || needs[kH])
      multiply(at.dh, Cell::kSeparateStateProduct ? at.d_state_product : at.d_gates, in[kWeightHh],
               {.beta = Cell::kSeparateStateProduct ? 1. : 0.});
  }
  const Tensor& d_product = Cell::kSeparateStateProduct ? d_state_product : d_gates;
  const auto weight_gradient = [&](Input which, const Tensor& d, const Tensor& by) {
    Tensor gradient = autograd::grad_bucket_view(slots[which]);
    if (!gradient.defined()) gradient = uninitialized(x, in[which].sizes());
    multiply(gradient, turned(d), by);
    return gradient;
  };
  Inputs gradients;
  if (needs[kX]) gradients[kX] = mm(d_gates, in[kWeightIh].detach());
  if (needs[kWeightIh]) gradients[kWeightIh] = weight_gradient(kWeightIh, d_gates, x);
  if (needs[kWeightHh]) gradients[kWeightHh] = weight_gradient(kWeightHh, d_product, kept.h.all_before());
  if (needs[kBiasIh]) gradients[kBiasIh] = sum(d_gates, {0});
  if (needs[kBiasHh])
    gradients[kBiasHh] = Cell::kSeparateStateProduct || !needs[kBiasIh]
                             ? sum(d_product, {0})
                             : gradients[kBiasIh].clone();  // gradients must not share memory
  if (needs[kH]) gradients[kH] = dh;
  if (needs[kC]) gradients[kC] = dc;
  return gradients;
}

/// A Kept that is saved. `output`: h.all(), as the caller gets it.
class SavedKept {
 public:
  SavedKept(const Kept& kept, const Tensor& output)
      : gates_(kept.gates),
        state_product_(kept.state_product),
        h_before_(kept.h.all_before()),
        h_(output, kOutput),
        c_before_(kept.c.all_before()),
        c_(kept.c.all()) {}
  Kept get() const {
    return {gates_.get(), state_product_.get(), {h_before_.get(), h_.get().detach()}, {c_before_.get(), c_.get()}};
  }

 private:
  Saved gates_, state_product_, h_before_, h_, c_before_, c_;
};

/// The gradients of the composed sequence, recorded. They are taken with respect to views of the inputs: if input A was
/// computed from input B, the gradient of B must not include the part that flows through A, because backward adds that
/// part later.
Inputs recorded_gradients(Kind kind, const Inputs& in, const std::array<bool, kInputs>& needs, const Steps& steps,
                          const Gradients& arrived);

template <class Cell>
Outputs run_fused(Kind kind, const Inputs& in, const Steps& steps) {
  const Kept kept = forward_pass<Cell>(in, steps);
  Outputs out = {kept.h.all().detach(), kept.h.last().detach(), Cell::kHasCell ? kept.c.last().detach() : Tensor()};
  std::vector<Tensor> inputs, outputs = {out.output, out.h};
  std::vector<Saved> saved;
  std::array<bool, kInputs> present = {}, needs = {};
  std::array<int, kInputs> slots = {};
  for (std::size_t i = 0; i < kInputs; ++i) {
    if (!(present[i] = in[i].defined())) continue;
    needs[i] = needs_grad(in[i]);
    slots[i] = int(inputs.size());
    inputs.push_back(in[i]);
    saved.emplace_back(in[i]);
  }
  if (!autograd::any_records(inputs)) return out;
  if (Cell::kHasCell) outputs.push_back(out.c);
  auto body = [kind, steps, needs, slots, saved_kept = SavedKept(kept, out.output), saved = std::move(saved),
               present](const Gradients& arrived) {
    const Kept history = saved_kept.get();  // throws if the outputs were changed in place
    Inputs values;
    for (std::size_t i = 0, at = 0; i < kInputs; ++i)
      if (present[i]) values[i] = saved[at++].get();
    const Inputs all = grad_enabled() ? recorded_gradients(kind, values, needs, steps, arrived)
                                      : backward_pass<Cell>(values, needs, slots, steps, history, arrived);
    Gradients gradients;
    for (std::size_t i = 0; i < kInputs; ++i)
      if (present[i]) gradients.push_back(all[i]);
    return gradients;
  };
  autograd::record_many(Cell::kNode, outputs, inputs, std::move(body));
  return out;
}

}  // namespace lockstep::recurrent
