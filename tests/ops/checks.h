// Helpers of the tests of ops.
#pragma once

#include <gtest/gtest.h>

#include <lockstep/autograd/gradcheck.h>
#include <lockstep/core/error.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/order.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/ops/unary.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/values.h"

namespace lockstep::testing {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The elements of a bool tensor; fails for another dtype.
inline std::vector<int> flags(const Tensor& x) {
  EXPECT_EQ(x.dtype(), kBool);
  const std::vector<double> numbers = values(x);
  return {numbers.begin(), numbers.end()};
}

inline Tensor doubles(const std::vector<double>& values, const Shape& sizes) {
  return tensor(values, {.dtype = kFloat64}).view(sizes);
}

inline Tensor random_doubles(const Shape& sizes) { return randn(sizes, {.dtype = kFloat64}); }

/// Expects equal values; NaN equals NaN.
inline void expect_values(const Tensor& got, const std::vector<double>& expected) {
  const std::vector<double> actual = values(got);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(actual[i])) << "element " << i << " is " << actual[i];
    else
      EXPECT_DOUBLE_EQ(actual[i], expected[i]) << "element " << i;
}

/// Expects equal shape, dtype and bits.
inline void expect_same(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.dtype(), expected.dtype());
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_TRUE(all(eq(got, expected)).item<bool>()) << "got " << got << "\nexpected " << expected;
}

/// Expects values within `tolerance`.
inline void expect_close(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> actual = values(got);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

/// Expects gradients, and gradients of gradients, that agree with numeric ones.
template <class F>
void expect_gradients(F function, const std::vector<Tensor>& inputs) {
  EXPECT_NO_THROW(gradcheck(function, inputs));
  EXPECT_NO_THROW(gradgradcheck(function, inputs));
}

/// The largest absolute value.
inline double largest(const Tensor& x) { return max(abs(x.detach())).item<double>(); }

template <class ErrorType, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type of error: ") + error.what();
  }
  return "no error";
}

/// The gradient of sum(f(x) * weights 1, 2, 3, ...) with respect to x.
template <class F>
Tensor weighted_gradient(F function, const Tensor& x) {
  Tensor leaf = x.clone().detach();
  leaf.requires_grad_();
  const Tensor y = function(leaf);
  const Tensor weights = arange(1, double(y.numel() + 1), 1, {.dtype = y.dtype(), .device = y.device()});
  y.backward(weights.reshape(y.sizes()));
  return leaf.grad();
}

}  // namespace lockstep::testing
