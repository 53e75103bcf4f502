// The plain recurrent layer (Elman 1990): one sum, and tanh or relu.
#include <lockstep/core/elementary.h>
#include "ops/recurrent/fused_sequence.h"

namespace lockstep::recurrent {
namespace {

struct RnnTanh {
  static constexpr const char* kNode = "RnnTanh";
  template <class T>
  LOCKSTEP_HD static T of(T x) {
    return elementary::tanh(x);
  }
  template <class T>
  LOCKSTEP_HD static T slope(T y) {
    return 1 - y * y;
  }
};
struct RnnRelu {
  static constexpr const char* kNode = "RnnRelu";
  template <class T>
  LOCKSTEP_HD static T of(T x) {
    return x <= 0 ? T(0) : x;
  }
  template <class T>
  LOCKSTEP_HD static T slope(T y) {
    return y > 0 ? T(1) : T(0);
  }
};

template <class F>
struct RnnForward {
  template <class T>
  LOCKSTEP_HD void operator()(T& h, const T& sum) const {
    h = F::of(sum);
  }
};
template <class F>
struct RnnBackward {
  template <class T>
  LOCKSTEP_HD void operator()(T& d_sum, const T& h, const T& d_output, const T& d_next) const {
    d_sum = (d_output + d_next) * F::slope(h);
  }
};

template <class F>
struct RnnCell {
  static constexpr const char* kName = "rnn";
  static constexpr const char* kNode = F::kNode;
  static constexpr std::int64_t kGates = 1;
  static constexpr bool kHasCell = false, kSeparateStateProduct = false;

  template <class T>
  static void forward(const ForwardStep& at, std::int64_t) {
    multi_output<T, const T>("rnn_cell", 5, RnnForward<F>(), at.h, at.gates);
  }
  template <class T>
  static void backward(const BackwardStep& at, std::int64_t) {
    multi_output<T, const T, const T, const T>("rnn_cell_gradient", 5, RnnBackward<F>(), at.d_gates, at.of.h,
                                               at.d_output, at.dh);
  }
};

}  // namespace

Outputs run_rnn_tanh(const Inputs& inputs, const Steps& steps) {
  return run_fused<RnnCell<RnnTanh>>(Kind::rnn_tanh, inputs, steps);
}
Outputs run_rnn_relu(const Inputs& inputs, const Steps& steps) {
  return run_fused<RnnCell<RnnRelu>>(Kind::rnn_relu, inputs, steps);
}

}  // namespace lockstep::recurrent
