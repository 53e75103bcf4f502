#include <lockstep/ops/activation.h>

#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace lockstep {
namespace {

struct Softplus {
  double beta, threshold;
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return T(beta) * x > T(threshold) ? x : softplus(T(beta) * x) / T(beta);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    const T scaled = ConstantOf<T>(beta) * x;
    return where(scaled > ConstantOf<T>(threshold), g, g * sigmoid(scaled));
  }
};

struct LogSigmoid {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return -softplus(-x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    return g * sigmoid(-x);
  }
};

}  // namespace

Tensor softplus(const Tensor& x, const SoftplusOptions& options) {
  if (const auto cast = autocast::wide()) return softplus(cast(x), options);
  if (!(options.beta > 0)) throw InvalidArgument(text("[softplus] expected beta > 0, got ", options.beta));
  return unary("softplus", "Softplus", x, Softplus{options.beta, options.threshold});
}

Tensor logsigmoid(const Tensor& x) { return unary("logsigmoid", "LogSigmoid", x, LogSigmoid()); }

}  // namespace lockstep
