// Initial values of parameters: their distribution, the fans, and errors.
#include <lockstep/nn/init.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <lockstep/nn/layers.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

struct Moments {
  double mean = 0, deviation = 0, greatest = 0;
};

Moments moments(const Tensor& x) {
  const std::vector<double> all = values(x);
  Moments m;
  for (const double v : all) m.mean += v / double(all.size()), m.greatest = std::max(m.greatest, std::abs(v));
  for (const double v : all) m.deviation += (v - m.mean) * (v - m.mean) / double(all.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

// With 36000 normal numbers, the standard error of their mean is 0.53% of the deviation, that of their deviation 0.37%.
void expect_deviation(const Tensor& x, double deviation, bool uniform) {
  const Moments m = moments(x);
  EXPECT_NEAR(m.mean, 0, 0.03 * deviation);
  EXPECT_NEAR(m.deviation, deviation, 0.03 * deviation);
  const double bound = std::sqrt(3) * deviation;
  if (uniform) {
    EXPECT_LE(m.greatest, bound);
    EXPECT_GT(m.greatest, 0.99 * bound);
  } else {
    EXPECT_GT(m.greatest, 3 * deviation);
  }
}

TEST(Init, HasTheVarianceOfItsFans) {
  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    manual_seed(11);
    nn::Parameter weight(empty({60, 100, 2, 3}, {.dtype = kFloat64, .device = device}));  // fans: 600 in, 360 out
    nn::init::xavier_uniform_(weight);
    expect_deviation(weight, std::sqrt(2. / 960), true);
    nn::init::xavier_normal_(weight, nn::init::calculate_gain("tanh"));
    expect_deviation(weight, 5. / 3 * std::sqrt(2. / 960), false);
    nn::init::kaiming_uniform_(weight);
    expect_deviation(weight, std::sqrt(2. / 600), true);
    nn::init::kaiming_normal_(weight, {.a = 2, .mode = "fan_out"});
    expect_deviation(weight, std::sqrt(2. / 5 / 360), false);
    nn::init::normal_(weight, 0, 3);
    expect_deviation(weight, 3, false);
    nn::init::constant_(weight, 2.5);
    EXPECT_EQ(values(weight), std::vector<double>(36000, 2.5));
    EXPECT_TRUE(weight.requires_grad());
    EXPECT_TRUE(weight.is_leaf());
  }
}

TEST(Init, IsTheSameOnEveryDevice) {
  const TestDevices devices(1);
  nn::Linear here(30, 20), there(30, 20, {.tensor = {.device = "cuda:0"}});
  manual_seed(3);
  nn::init::kaiming_normal_(here.weight);
  manual_seed(3);
  nn::init::kaiming_normal_(there.weight);
  EXPECT_EQ(values(here.weight), values(there.weight));
}

// One row of an embedding is a view that may begin at any offset.
TEST(Init, IsTheSameInARowOfAnotherTensor) {
  const auto all = [](Tensor& row) {
    manual_seed(3);
    Tensor matrix = row.view({2, -1});
    std::vector<std::vector<double>> seen;
    const auto see = [&] { seen.push_back(values(matrix)); };
    nn::init::normal_(row, 0, 0.1), see();
    nn::init::uniform_(row, -1, 1), see();
    nn::init::trunc_normal_(row), see();
    nn::init::constant_(row, 2), see();
    nn::init::xavier_uniform_(matrix), see();
    nn::init::xavier_normal_(matrix), see();
    nn::init::kaiming_uniform_(matrix), see();
    nn::init::kaiming_normal_(matrix), see();
    nn::init::orthogonal_(matrix), see();
    nn::init::sparse_(matrix, 0.5), see();
    nn::init::eye_(matrix), see();
    return seen;
  };
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16})
    for (const std::int64_t width : {2, 18, 50, 66, 300}) {
      Tensor embedding = zeros({16, width}, {.dtype = dtype}), alone = zeros({width}, {.dtype = dtype});
      const auto expected = all(alone);
      for (std::int64_t i = 0; i < 16; ++i) {
        Tensor row = embedding[i];
        ASSERT_EQ(all(row), expected) << dtype << ", row " << i << " of width " << width;
        ASSERT_EQ(values(embedding.narrow(0, i + 1, 15 - i)), std::vector<double>(std::size_t((15 - i) * width), 0));
      }
    }
}

TEST(Init, RefusesWhatHasNoFan) {
  Tensor bias = zeros({5}), integers = zeros({5, 5}, {.dtype = kInt64}), none = zeros({0, 5});
  EXPECT_EQ(thrown<ShapeError>([&] { nn::init::xavier_uniform_(bias); }),
            "[xavier_uniform_] expected a weight [out, in, ...], got [5]");
  EXPECT_THROW(nn::init::kaiming_normal_(bias), ShapeError);
  EXPECT_THROW(nn::init::kaiming_uniform_(integers), DTypeError);
  Tensor no_integers = zeros({0, 5}, {.dtype = kInt64});
  EXPECT_THROW(nn::init::xavier_normal_(no_integers), DTypeError);
  EXPECT_NO_THROW(nn::init::kaiming_normal_(none, {.mode = "fan_out", .nonlinearity = "relu"}));
}

}  // namespace
}  // namespace lockstep
