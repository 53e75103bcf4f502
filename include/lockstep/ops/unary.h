// Elementwise functions of one tensor. Floating dtypes only, else DTypeError; functions marked "Numeric" take every
// dtype but bool. Differentiable to any order; the gradient of a step function is 0.
#pragma once

#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

LOCKSTEP_API Tensor abs(const Tensor& x);         ///< Numeric. The gradient at 0 is 0.
LOCKSTEP_API Tensor square(const Tensor& x);      ///< Numeric.
LOCKSTEP_API Tensor reciprocal(const Tensor& x);  ///< 1 / x
LOCKSTEP_API Tensor sqrt(const Tensor& x);        ///< The square root. NaN below 0.
LOCKSTEP_API Tensor rsqrt(const Tensor& x);       ///< 1 / sqrt(x)

LOCKSTEP_API Tensor exp(const Tensor& x);    ///< e^x
LOCKSTEP_API Tensor expm1(const Tensor& x);  ///< exp(x) - 1, exact near 0
LOCKSTEP_API Tensor log(const Tensor& x);    ///< To base e. NaN below 0.
LOCKSTEP_API Tensor log1p(const Tensor& x);  ///< log(1 + x), exact near 0

LOCKSTEP_API Tensor log2(const Tensor& x);   ///< To base 2.
LOCKSTEP_API Tensor log10(const Tensor& x);  ///< To base 10.

LOCKSTEP_API Tensor sin(const Tensor& x);      ///< x in radians.
LOCKSTEP_API Tensor cos(const Tensor& x);      ///< x in radians.
LOCKSTEP_API Tensor tan(const Tensor& x);      ///< x in radians.
LOCKSTEP_API Tensor tanh(const Tensor& x);     ///< The hyperbolic tangent.
LOCKSTEP_API Tensor sigmoid(const Tensor& x);  ///< 1 / (1 + exp(-x))
LOCKSTEP_API Tensor erf(const Tensor& x);      ///< The error function.

LOCKSTEP_API Tensor floor(const Tensor& x);  ///< The nearest integer not above x.
LOCKSTEP_API Tensor ceil(const Tensor& x);   ///< The nearest integer not below x.
LOCKSTEP_API Tensor trunc(const Tensor& x);  ///< The integer part: rounds towards 0.
LOCKSTEP_API Tensor round(const Tensor& x);  ///< The nearest integer, halves to the even one.
LOCKSTEP_API Tensor sign(const Tensor& x);   ///< -1, 0 or 1; NaN stays.

struct ClampOptions {
  std::optional<double> min = {};  ///< Default: no bound.
  std::optional<double> max = {};  ///< Default: no bound.
};
/// Numeric. Elements below min become min, those above max become max; NaN stays, and a NaN bound makes every element
/// NaN. The gradient passes where min < x < max, else it is 0. Throws InvalidArgument if there is no bound, or if min >
/// max.
LOCKSTEP_API Tensor clamp(const Tensor& x, const ClampOptions& options);
/// Examples: clamp(x, 0, 1); clamp(x, 0) without an upper bound; clamp(x, std::nullopt, 1).
inline Tensor clamp(const Tensor& x, std::optional<double> min, std::optional<double> max = {}) {
  return clamp(x, ClampOptions{.min = min, .max = max});
}
/// clamp() by its other name in PyTorch.
inline Tensor clip(const Tensor& x, std::optional<double> min, std::optional<double> max = {}) {
  return clamp(x, min, max);
}

/// Replaces NaN by `nan` (default 0), infinity by `posinf` and -infinity by `neginf` (defaults: the greatest and the
/// least finite number of the dtype). Any dtype. No gradient flows into replaced elements.
LOCKSTEP_API Tensor nan_to_num(const Tensor& x, std::optional<double> nan = {}, std::optional<double> posinf = {},
                               std::optional<double> neginf = {});

}  // namespace lockstep
