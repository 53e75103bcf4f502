// Elementwise comparison, logic and selection. Shapes broadcast, dtypes promote as in arithmetic.h. Throw ShapeError,
// DeviceMismatch; DTypeError for a condition that is not bool.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Return bool tensors. Comparisons with NaN are false, except ne.
LOCKSTEP_API Tensor eq(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor ne(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor lt(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor le(const Tensor& a, const Tensor& b);
inline Tensor gt(const Tensor& a, const Tensor& b) { return lt(b, a); }
inline Tensor ge(const Tensor& a, const Tensor& b) { return le(b, a); }

/// Comparisons with a number.
LOCKSTEP_API Tensor eq(const Tensor& a, double b);
LOCKSTEP_API Tensor ne(const Tensor& a, double b);
LOCKSTEP_API Tensor lt(const Tensor& a, double b);
LOCKSTEP_API Tensor le(const Tensor& a, double b);
LOCKSTEP_API Tensor gt(const Tensor& a, double b);
LOCKSTEP_API Tensor ge(const Tensor& a, double b);

inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator==(const Tensor& a, double b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, double b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return ge(a, b); }
inline Tensor operator==(double a, const Tensor& b) { return eq(b, a); }
inline Tensor operator!=(double a, const Tensor& b) { return ne(b, a); }
inline Tensor operator<(double a, const Tensor& b) { return gt(b, a); }
inline Tensor operator<=(double a, const Tensor& b) { return ge(b, a); }
inline Tensor operator>(double a, const Tensor& b) { return lt(b, a); }
inline Tensor operator>=(double a, const Tensor& b) { return le(b, a); }

/// Elementwise and, or, xor and not: bool tensors. Any dtype; nonzero elements and NaN count as true.
LOCKSTEP_API Tensor logical_and(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor logical_or(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor logical_xor(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor logical_not(const Tensor& a);

inline Tensor operator!(const Tensor& a) { return logical_not(a); }
inline Tensor operator&&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }  ///< Computes both operands.
inline Tensor operator||(const Tensor& a, const Tensor& b) { return logical_or(a, b); }

/// Logical for bool tensors, bitwise for integers. Throw DTypeError for floating dtypes.
LOCKSTEP_API Tensor operator&(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor operator|(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor operator^(const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor operator~(const Tensor& a);

/// equal() returns true if all elements are equal; allclose() if each |a - b| <= atol + rtol |b|. NaN equals no number
/// and is close to none. Different sizes give false. The host waits for the device. Throw DTypeError for different
/// dtypes, DeviceMismatch.
LOCKSTEP_API bool equal(const Tensor& a, const Tensor& b);
LOCKSTEP_API bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);

/// A bool tensor that is true where an element is NaN (isnan), infinite (isinf), or neither (isfinite). Any dtype.
LOCKSTEP_API Tensor isnan(const Tensor& x);
LOCKSTEP_API Tensor isinf(const Tensor& x);
LOCKSTEP_API Tensor isfinite(const Tensor& x);

/// a where the condition is true, else b. Differentiable in a and b.
LOCKSTEP_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
LOCKSTEP_API Tensor where(const Tensor& condition, const Tensor& a, double b);
LOCKSTEP_API Tensor where(const Tensor& condition, double a, const Tensor& b);
/// x, with `value` where the mask is true. The mask broadcasts to x's shape. Differentiable in x.
LOCKSTEP_API Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

}  // namespace lockstep
