#include <lockstep/ops/activation.h>

#include "ops/elementwise.h"
#include "runtime/fused_ops/activation.h"

namespace lockstep {
namespace {

using elementary::erf;
using elementary::exp;
using elementary::tanh;

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

// exp(-x^2) and erf(x), within 2e-7 (Abramowitz, Stegun: Handbook of Mathematical Functions, 7.1.26).
struct ErfAndSlope {
  float erf, slope;
};
LOCKSTEP_HD ErfAndSlope erf_and_slope(float x) {
  const float magnitude = std::abs(x), t = 1.0f / (1.0f + 0.3275911f * magnitude), slope = exp(-x * x);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  return {std::copysign(1.0f - p * t * slope, x), slope};
}

struct Gelu {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return x * below(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
#ifndef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, float>) {
      const auto [bend, slope] = erf_and_slope(float(kSqrtHalf) * x);
      return g * ((1 + bend) / 2 + float(kInvSqrtTwoPi) * x * slope);
    }
#endif
    return g * (below(x) + ConstantOf<T>(kInvSqrtTwoPi) * x * exp(-x * x / 2));
  }
  // The normal distribution function.
  template <class T>
  LOCKSTEP_HD static T below(const T& x) {
#ifndef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, float>) return (1 + erf_and_slope(float(kSqrtHalf) * x).erf) / 2;
#endif
    return (1 + erf(ConstantOf<T>(kSqrtHalf) * x)) / 2;
  }
};
struct GeluTanh {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return gelu_tanh_of(x);
  }
  template <class T>
  LOCKSTEP_HD T gradient(const T& g, const T& x) const {
    // Clamps x to [-11, 11]: beyond these bounds the slope is 0 or 1, and x^2 may overflow.
    const T z = where(x > 11, 11, where(x < -11, -11, x)), t = bend(z);
    const T slope = ConstantOf<T>(kSqrtTwoOverPi) * (1 + ConstantOf<T>(3 * kCubic) * z * z);
    return g * (1 + t + z * (1 - t * t) * slope) / 2;
  }
  template <class T>
  LOCKSTEP_HD static T bend(const T& x) {
    return tanh(ConstantOf<T>(kSqrtTwoOverPi) * (x + ConstantOf<T>(kCubic) * x * x * x));
  }
};

}  // namespace

Tensor gelu(const Tensor& x, Choice<GeluForm> approximate) {
  const GeluForm form = approximate;
  return form == GeluForm::exact ? unary("gelu", "Gelu", x, Gelu()) : unary("gelu", "Gelu", x, GeluTanh());
}

}  // namespace lockstep
