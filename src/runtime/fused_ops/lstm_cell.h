// The arithmetic of one element of an LSTM's cell (Hochreiter, Schmidhuber 1997; with forget gates), as PyTorch numbers
// its gates: i, f, g, o.
#pragma once

#include <lockstep/core/elementary.h>

namespace lockstep {

/// i, f, g, o: the pre-activations of the gates; overwritten by the gates.
struct LstmForward {
  template <class T>
  LOCKSTEP_HD void operator()(T& h, T& c, T& i, T& f, T& g, T& o, const T& c_before) const {
    const T in = elementary::sigmoid(i), forget = elementary::sigmoid(f), candidate = elementary::tanh(g), out = elementary::sigmoid(o);
    const T cell = forget * c_before + in * candidate;
    i = in;
    f = forget;
    g = candidate;
    o = out;
    c = cell;
    h = out * elementary::tanh(cell);
  }
};

/// dc: the gradient of c; overwritten by the gradient of c_before. d_output and d_next: the gradients of h from the
/// output and from the next step.
struct LstmBackward {
  template <class T>
  LOCKSTEP_HD void operator()(T& dc, T& di, T& df, T& dg, T& d_o, const T& i, const T& f, const T& g, const T& o,
                              const T& c_before, const T& c, const T& d_output, const T& d_next) const {
    const T squashed = elementary::tanh(c), dh = d_output + d_next;
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

}  // namespace lockstep
