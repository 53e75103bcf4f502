// Losses of the difference between input and target.
#include "ops/autocast.h"
#include "ops/loss.h"

namespace lockstep {
namespace {

using std::abs;

struct Mse {
  static constexpr bool kArithmetic = true;
  template <class T>
  LOCKSTEP_HD T operator()(T x, T target) const {
    return (x - target) * (x - target);
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T& x, const T& target) const {
    return 2 * g * (x - target);
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& x, const T& target) const {
    return 2 * g * (target - x);
  }
};
struct L1 {
  static constexpr bool kArithmetic = true;
  template <class T>
  LOCKSTEP_HD T operator()(T x, T target) const {
    return abs(x - target);
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T& x, const T& target) const {
    return where(x > target, g, where(x < target, -g, 0));
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& x, const T& target) const {
    return first(g, target, x);
  }
};
// A parabola up to `bend`, then a straight line with slope `slope`.
struct Bent {
  double bend, slope;
  template <class T>
  LOCKSTEP_HD T operator()(T x, T target) const {
    const T d = abs(x - target);
    return d <= T(bend) ? T(slope / bend) * d * d / 2 : T(slope) * (d - T(bend) / 2);
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T& x, const T& target) const {
    const T d = x - target;
    const T straight = ConstantOf<T>(slope) * g;
    const T bent = ConstantOf<T>(slope / bend) * g * d;  // NaN takes this branch, and stays
    return where(d > ConstantOf<T>(bend), straight, where(d < ConstantOf<T>(-bend), -straight, bent));
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& x, const T& target) const {
    return first(g, target, x);
  }
};

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, const LossOptions& options) {
  if (const auto cast = autocast::wide()) return mse_loss(cast(input), cast(target), options);
  return reduced(pointwise_loss("mse_loss", "MseLoss", input, target, Mse()), options.reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, const LossOptions& options) {
  if (const auto cast = autocast::wide()) return l1_loss(cast(input), cast(target), options);
  return reduced(pointwise_loss("l1_loss", "L1Loss", input, target, L1()), options.reduction);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossOptions& options) {
  if (const auto cast = autocast::wide()) return smooth_l1_loss(cast(input), cast(target), options);
  if (!(options.beta >= 0)) throw InvalidArgument(text("[smooth_l1_loss] expected beta >= 0, got ", options.beta));
  if (options.beta == 0) return l1_loss(input, target, {options.reduction});
  return reduced(pointwise_loss("smooth_l1_loss", "SmoothL1Loss", input, target, Bent{options.beta, 1}),
                 options.reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options) {
  if (const auto cast = autocast::wide()) return huber_loss(cast(input), cast(target), options);
  if (!(options.delta > 0)) throw InvalidArgument(text("[huber_loss] expected delta > 0, got ", options.delta));
  return reduced(pointwise_loss("huber_loss", "HuberLoss", input, target, Bent{options.delta, options.delta}),
                 options.reduction);
}

}  // namespace lockstep
