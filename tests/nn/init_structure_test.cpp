// Structured initial values: identities, orthogonal and sparse matrices, truncated normal numbers.
#include <lockstep/nn/init.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <lockstep/ops/linalg.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::init_structure {
namespace {

using testing::thrown;
using testing::values;

TEST(InitStructure, MakesIdentities) {
  Tensor x = zeros({2, 3});
  nn::init::eye_(x);
  EXPECT_EQ(values(x), (std::vector<double>{1, 0, 0, 0, 1, 0}));
  nn::init::ones_(x);
  EXPECT_EQ(values(x), std::vector<double>(6, 1));
  nn::init::zeros_(x);
  EXPECT_EQ(values(x), std::vector<double>(6, 0));
  Tensor kernel = zeros({4, 2, 3});
  nn::init::dirac_(kernel, 2);
  EXPECT_EQ(values(kernel),
            (std::vector<double>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}));
}

TEST(InitStructure, MakesOrthogonalMatrices) {
  const TestDevices devices(1);
  for (const Shape& sizes : {Shape{5, 5}, Shape{3, 8}, Shape{8, 3}, Shape{4, 2, 3}}) {
    Tensor x = zeros(sizes, {.dtype = kFloat64, .device = Device::cuda(0)});
    nn::init::orthogonal_(x, 2);
    const Tensor m = x.flatten(1), few = m.size(0) < m.size(1) ? m : m.t();
    const auto product = values(mm(few.contiguous(), few.t().contiguous()));
    const auto n = std::size_t(few.size(0));
    for (std::size_t i = 0; i < n * n; ++i) EXPECT_NEAR(product[i], i % (n + 1) == 0 ? 4 : 0, 1e-12);
  }
}

TEST(InitStructure, MakesSparseColumns) {
  Tensor x = zeros({10, 4});
  nn::init::sparse_(x, 0.25, 2);
  const auto all = values(x);
  for (std::size_t c = 0; c < 4; ++c) {
    int none = 0;
    for (std::size_t r = 0; r < 10; ++r) none += all[r * 4 + c] == 0;
    EXPECT_EQ(none, 3);
  }
}

TEST(InitStructure, CutsOffNormalNumbers) {
  Tensor x = zeros({20000}, {.dtype = kFloat64});
  nn::init::trunc_normal_(x, 1, 2, -1, 4);
  double mean = 0, least = 9, most = -9;
  for (const double v : values(x)) mean += v / 20000, least = std::min(least, v), most = std::max(most, v);
  EXPECT_GE(least, -1);
  EXPECT_LE(most, 4);
  EXPECT_LT(least, -0.9);
  EXPECT_GT(most, 3.9);
  // The mean of the truncated distribution: mean + deviation (density(-1) - density(1.5)) / (probability between the
  // bounds).
  const auto density = [](double z) { return std::exp(-z * z / 2) / std::sqrt(8 * std::atan(1)); };
  const double share = (std::erf(1.5 / std::sqrt(2)) - std::erf(-1 / std::sqrt(2))) / 2;
  EXPECT_NEAR(mean, 1 + 2 * (density(-1) - density(1.5)) / share, 0.05);
}

TEST(InitStructure, RefusesWhatDoesNotFit) {
  Tensor x = zeros({3});
  EXPECT_EQ(thrown<ShapeError>([&] { nn::init::eye_(x); }), "[eye_] expected a matrix, got [3]");
  EXPECT_EQ(thrown<ShapeError>([&] { nn::init::orthogonal_(x); }),
            "[orthogonal_] expected at least 2 dimensions, got [3]");
  EXPECT_EQ(thrown<ShapeError>([&] { nn::init::dirac_(x); }),
            "[dirac_] expected a weight [out, in, ...] of 3 to 5 dimensions, got [3]");
  EXPECT_EQ(thrown<InvalidArgument>([&] { nn::init::trunc_normal_(x, 0, 1, 2, 1); }),
            "[trunc_normal_] expected finite low < high, got 2 and 1");
  Tensor m = zeros({3, 3});
  EXPECT_EQ(thrown<InvalidArgument>([&] { nn::init::sparse_(m, 2); }),
            "[sparse_] expected a sparsity from 0 to 1, got 2");
}

}  // namespace
}  // namespace lockstep::init_structure
