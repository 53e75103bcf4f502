// Compares numbers up to rounding, at any scale.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace lockstep::testing {

/// Fails for an element whose error exceeds `relative` times the largest expected element.
inline void expect_close(const std::vector<double>& got, const std::vector<double>& expected, double relative,
                         const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], relative * largest) << what << ", element " << i;
}

}  // namespace lockstep::testing
