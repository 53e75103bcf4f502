#include "ops/autocast.h"
#include "ops/loss.h"

namespace lockstep {
namespace {

using elementary::log;

struct KlDiv {
  template <class T>
  LOCKSTEP_HD T operator()(T x, T target) const {
    return target == 0 ? T(0) : target * (log(target) - x);
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T&, const T& target) const {
    return -g * target;
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& x, const T& target) const {
    return g * (log(target) + 1 - x);
  }
};

}  // namespace

Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options) {
  if (const auto cast = autocast::wide()) return kl_div(cast(input), cast(target), options);
  if (!options.log_target) return reduced(pointwise_loss("kl_div", "KlDiv", input, target, KlDiv()), options.reduction);
  check_target("kl_div", input, target);
  check_floating("kl_div", input);
  return reduced(exp(target) * (target - input), options.reduction);
}

}  // namespace lockstep
