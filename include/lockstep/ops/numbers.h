// where(), eq(), sigmoid() and softplus() of numbers. They have the names of the functions of tensors, so that
// arithmetic can be written once, for any T: a number or a Tensor. (After `using elementary::exp;` in the
// namespace of the function object, exp(x) works for numbers and tensors too. So do tanh and the like.)
#pragma once

#include <cmath>
#include <concepts>
#include <type_traits>

#include <lockstep/core/elementary.h>

namespace lockstep {

/// The type of constants in arithmetic on T: T itself if T is a number, double if it is a Tensor.
template <class T>
using ConstantOf = std::conditional_t<std::is_arithmetic_v<T>, T, double>;

/// where() of two numbers, in kernels.
template <class A, class B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B> LOCKSTEP_HD std::common_type_t<A, B> where(bool condition,
                                                                                                       A a, B b) {
  return condition ? std::common_type_t<A, B>(a) : std::common_type_t<A, B>(b);
}
/// eq() of two numbers.
template <std::floating_point T>
LOCKSTEP_HD bool eq(T a, std::type_identity_t<T> b) {
  return a == b;
}
/// sigmoid() of a number.
template <std::floating_point T>
LOCKSTEP_HD T sigmoid(T x) {
  return elementary::sigmoid(x);
}
/// softplus() of a number.
template <std::floating_point T>
LOCKSTEP_HD T softplus(T x) {  // log(1 + e^x) without overflow
  return (x > 0 ? x : T(0)) + elementary::log1p(elementary::exp(-std::abs(x)));
}

}  // namespace lockstep
