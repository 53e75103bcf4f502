// Activations that can end a matrix product. All backends compute these formulas; a vendor library may round
// differently.
#pragma once

#include <cstdint>

#include <lockstep/core/elementary.h>

namespace lockstep {

enum class Activation : std::uint8_t {
  none,
  relu,
  gelu_tanh,  ///< The tanh approximation: cuBLASLt's GELU, which has no exact form.
};

template <class T>
LOCKSTEP_HD T relu_of(T x) {
  return x > 0 || x != x ? x : T(0);  // propagates NaN
}

template <class T>
LOCKSTEP_HD T gelu_tanh_of(T x) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588, kCubic = 0.044715;
  return x * ((1 + elementary::tanh(T(kSqrtTwoOverPi) * (x + T(kCubic) * x * x * x))) / 2);
}

template <class T>
LOCKSTEP_HD T activate(Activation activation, T x) {
  switch (activation) {
    case Activation::relu: return relu_of(x);
    case Activation::gelu_tanh: return gelu_tanh_of(x);
    default: return x;
  }
}

}  // namespace lockstep
