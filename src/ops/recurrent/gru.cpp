// The GRU (Cho et al. 2014), as PyTorch and cuDNN compute it: the reset gate multiplies the state's product, including
// the bias. Gates: r, z, n.
#include <lockstep/core/elementary.h>
#include "ops/recurrent/fused_sequence.h"

namespace lockstep::recurrent {
namespace {

// hr, hz, hn: the state's product, for each gate.
struct GruForward {
  template <class T>
  LOCKSTEP_HD void operator()(T& h, T& r, T& z, T& n, const T& hr, const T& hz, const T& hn, const T& before) const {
    const T reset = elementary::sigmoid(r + hr), update = elementary::sigmoid(z + hz);
    const T candidate = elementary::tanh(n + reset * hn);
    r = reset;
    z = update;
    n = candidate;
    h = candidate + update * (before - candidate);
  }
};

struct GruBackward {
  template <class T>
  LOCKSTEP_HD void operator()(T& dh, T& dr, T& dz, T& dn, T& dhr, T& dhz, T& dhn, const T& r, const T& z, const T& n,
                              const T& hn, const T& before, const T& d_output) const {
    const T all = dh + d_output;
    const T candidate = all * (1 - z) * (1 - n * n);
    const T update = all * (before - n) * z * (1 - z), reset = candidate * hn * r * (1 - r), kept = all * z;
    dn = candidate;
    dz = update;
    dr = reset;
    dhn = candidate * r;
    dhz = update;
    dhr = reset;
    dh = kept;
  }
};

struct GruCell {
  static constexpr const char* kName = "gru";
  static constexpr const char* kNode = "Gru";
  static constexpr std::int64_t kGates = 3;
  static constexpr bool kHasCell = false, kSeparateStateProduct = true;

  template <class T>
  static void forward(const ForwardStep& at, std::int64_t n) {
    const Tensor &g = at.gates, &p = at.state_product;
    multi_output<T, T, T, T, const T, const T, const T, const T>(
        "gru_cell", 25, GruForward(), at.h, column_part(g, 0, n), column_part(g, 1, n), column_part(g, 2, n),
        column_part(p, 0, n), column_part(p, 1, n), column_part(p, 2, n), at.h_before);
  }
  template <class T>
  static void backward(const BackwardStep& at, std::int64_t n) {
    const Tensor &d = at.d_gates, &dp = at.d_state_product, &g = at.of.gates;
    multi_output<T, T, T, T, T, T, T, const T, const T, const T, const T, const T, const T>(
        "gru_cell_gradient", 30, GruBackward(), at.dh, column_part(d, 0, n), column_part(d, 1, n), column_part(d, 2, n),
        column_part(dp, 0, n), column_part(dp, 1, n), column_part(dp, 2, n), column_part(g, 0, n), column_part(g, 1, n),
        column_part(g, 2, n), column_part(at.of.state_product, 2, n), at.of.h_before, at.d_output);
  }
};

}  // namespace

Outputs run_gru(const Inputs& inputs, const Steps& steps) { return run_fused<GruCell>(Kind::gru, inputs, steps); }

}  // namespace lockstep::recurrent
