// The LSTM: all steps as one operation if the device offers it, else step by step.
#include "ops/fused.h"
#include "ops/recurrent/fused_sequence.h"
#include "runtime/fused_ops/lstm_cell.h"

namespace lockstep::recurrent {
namespace {

// Splits rows of sequences of one length into steps.
Tensor by_step(const Tensor& rows, const Steps& steps) {
  return rows.view({steps.count(), steps.batch(), rows.size(1)});
}

FusedOp description(FusedKind kind, const char* name, const Steps& steps, std::int64_t hidden) {
  return {.kind = kind,
          .name = name,
          .flops = double(steps.total() * hidden) * double(8 * hidden + 40),
          .reverse = steps.reverse()};
}

struct LstmCell {
  static constexpr const char* kName = "lstm";
  static constexpr const char* kNode = "Lstm";
  static constexpr std::int64_t kGates = 4;
  static constexpr bool kHasCell = true, kSeparateStateProduct = false;

  static bool forward_all(const Inputs& in, const Steps& steps, const Kept& kept, std::int64_t n) {
    const auto all = [&](const Tensor& rows) { return by_step(rows, steps); };
    return steps.even() && run_fused(description(FusedKind::lstm, "lstm", steps, n), {{all(kept.gates), true},
                                                                                      {in[kWeightHh]},
                                                                                      {all(kept.h.all_before())},
                                                                                      {all(kept.c.all_before())},
                                                                                      {all(kept.h.all()), true},
                                                                                      {all(kept.c.all()), true}});
  }
  /// dh and dc become the gradients of the initial state.
  static bool backward_all(const Inputs& in, const Steps& steps, const Kept& kept, const Tensor& d_output,
                           const Tensor& dh, const Tensor& dc, const Tensor& d_gates) {
    const auto all = [&](const Tensor& rows) { return by_step(rows, steps); };
    return steps.even() && run_fused(description(FusedKind::lstm_gradient, "lstm_gradient", steps, dh.size(1)),
                                     {{all(d_output.contiguous())},
                                      {in[kWeightHh]},
                                      {all(kept.gates)},
                                      {all(kept.c.all_before())},
                                      {all(kept.c.all())},
                                      {dh, true},
                                      {dc, true},
                                      {all(d_gates), true}});
  }

  template <class T>
  static void forward(const ForwardStep& at, std::int64_t n) {
    const Tensor& g = at.gates;
    multi_output<T, T, T, T, T, T, const T>("lstm_cell", 30, LstmForward(), at.h, at.c, column_part(g, 0, n),
                                            column_part(g, 1, n), column_part(g, 2, n), column_part(g, 3, n),
                                            at.c_before);
  }
  template <class T>
  static void backward(const BackwardStep& at, std::int64_t n) {
    const Tensor &d = at.d_gates, &g = at.of.gates;
    multi_output<T, T, T, T, T, const T, const T, const T, const T, const T, const T, const T, const T>(
        "lstm_cell_gradient", 40, LstmBackward(), at.dc, column_part(d, 0, n), column_part(d, 1, n),
        column_part(d, 2, n), column_part(d, 3, n), column_part(g, 0, n), column_part(g, 1, n), column_part(g, 2, n),
        column_part(g, 3, n), at.of.c_before, at.of.c, at.d_output, at.dh);
  }
};

}  // namespace

Outputs run_lstm(const Inputs& inputs, const Steps& steps) { return run_fused<LstmCell>(Kind::lstm, inputs, steps); }

}  // namespace lockstep::recurrent
