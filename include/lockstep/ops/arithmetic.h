// Elementwise arithmetic of two operands. Shapes broadcast and dtypes promote (see DType). If only one of two tensors
// is 0-dim, it takes part in promotion only if its kind (bool, integers, floating) is the higher one. A number takes
// the tensor's dtype; but an integer tensor becomes int64 with a number that its dtype cannot hold, and float32 with a
// fractional number. Differentiable if the result is floating. Throw ShapeError, DeviceMismatch.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

LOCKSTEP_API Tensor add(const Tensor& a, const Tensor& b, double alpha = 1);  ///< a + alpha * b
LOCKSTEP_API Tensor sub(const Tensor& a, const Tensor& b, double alpha = 1);  ///< a - alpha * b
LOCKSTEP_API Tensor mul(const Tensor& a, const Tensor& b);                    ///< a * b
LOCKSTEP_API Tensor div(const Tensor& a, const Tensor& b);                    ///< True division: integers give float32.
LOCKSTEP_API Tensor add(const Tensor& a, double b);                           ///< a + b
inline Tensor sub(const Tensor& a, double b) { return add(a, -b); }           ///< a - b
LOCKSTEP_API Tensor mul(const Tensor& a, double b);                           ///< a * b
LOCKSTEP_API Tensor div(const Tensor& a, double b);                           ///< True division.
LOCKSTEP_API Tensor neg(const Tensor& a);                                     ///< -a

/// a - b floor(a / b): the remainder with the sign of b, as Python's %. Numeric dtypes. For integers, the remainder by
/// an element 0 is 0, but a number b = 0 throws InvalidArgument.
LOCKSTEP_API Tensor remainder(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor remainder(const Tensor& a, double b);

/// a - b trunc(a / b): the remainder with the sign of a, as C's fmod. Numeric dtypes. For integers, the remainder by an
/// element 0 is 0, but a number b = 0 throws InvalidArgument.
LOCKSTEP_API Tensor fmod(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor fmod(const Tensor& a, double b);

/// x + value * a * b, and x + value * a / b. All three tensors broadcast and promote. addcdiv throws DTypeError unless
/// the promoted dtype is floating; addcmul of integers throws DTypeError for a fractional value.
LOCKSTEP_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);
LOCKSTEP_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);

/// Numeric dtypes. Equal elements each get half of the gradient. If an element of a or b is NaN, the result is NaN, and
/// both a and b get the whole gradient.
LOCKSTEP_API Tensor maximum(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor minimum(const Tensor& a, const Tensor& b);

/// Powers. Integers stay integers for whole exponents >= 0 (bool becomes int64); other exponents give float32.
LOCKSTEP_API Tensor pow(const Tensor& base, double exponent);
/// Powers with a tensor as exponent. Throw DTypeError unless the promoted dtype is floating.
LOCKSTEP_API Tensor pow(const Tensor& base, const Tensor& exponent);
LOCKSTEP_API Tensor pow(double base, const Tensor& exponent);

/// a + weight (b - a): a for weight 0, b for weight 1. Throws DTypeError unless the promoted dtype is floating.
LOCKSTEP_API Tensor lerp(const Tensor& a, const Tensor& b, double weight);
LOCKSTEP_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);

/// The angle of the point (x, y), in radians from -pi to pi. Throws DTypeError unless the promoted dtype is floating.
/// The gradient at (0, 0) is 0.
LOCKSTEP_API Tensor atan2(const Tensor& y, const Tensor& x);
/// sqrt(a^2 + b^2), without overflow. Throws DTypeError unless the promoted dtype is floating. The gradient at (0, 0)
/// is 0.
LOCKSTEP_API Tensor hypot(const Tensor& a, const Tensor& b);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Tensor& a, double b) { return add(a, -b); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(const Tensor& a, double b) { return div(a, b); }
LOCKSTEP_API Tensor operator-(double a, const Tensor& b);
LOCKSTEP_API Tensor operator/(double a, const Tensor& b);
inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator%(const Tensor& a, double b) { return remainder(a, b); }

}  // namespace lockstep
