// The LSTM (Hochreiter, Schmidhuber 1997; with forget gates), as PyTorch numbers its gates: i, f, g, o.
#include "ops/recurrent/fused_sequence.h"
#include "ops/recurrent/gate_functions.h"
#include "ops/recurrent/sequences.h"

namespace lockstep::recurrent {
namespace {

struct LstmForward {
  template <class T>
  LOCKSTEP_HD void operator()(T& h, T& c, T& i, T& f, T& g, T& o, const T& c_before) const {
    const T in = gate_sigmoid(i), forget = gate_sigmoid(f), candidate = gate_tanh(g), out = gate_sigmoid(o);
    const T cell = forget * c_before + in * candidate;
    i = in;
    f = forget;
    g = candidate;
    o = out;
    c = cell;
    h = out * gate_tanh(cell);
  }
};

struct LstmBackward {
  template <class T>
  LOCKSTEP_HD void operator()(T& dc, T& di, T& df, T& dg, T& d_o, const T& i, const T& f, const T& g, const T& o,
                              const T& c_before, const T& c, const T& d_output, const T& d_next) const {
    const T squashed = gate_tanh(c), dh = d_output + d_next;
    const T cell = dc + dh * o * (1 - squashed * squashed);
    const T in = cell * g * i * (1 - i), forget = cell * c_before * f * (1 - f);
    const T candidate = cell * i * (1 - g * g), out = dh * squashed * o * (1 - o), before = cell * f;
    di = in;
    df = forget;
    dg = candidate;
    d_o = out;
    dc = before;
  }
};

struct LstmCell {
  static constexpr const char* kName = "lstm";
  static constexpr const char* kNode = "Lstm";
  static constexpr std::int64_t kGates = 4;
  static constexpr bool kHasCell = true, kSeparate = false;

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
