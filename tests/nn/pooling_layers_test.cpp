// Pooling layers.
#include <gtest/gtest.h>

#include <lockstep/nn/pooling.h>
#include <lockstep/ops/pooling.h>
#include <lockstep/tensor/random.h>

#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

TEST(PoolingLayers, DoAsTheirFunctions) {
  const Tensor x = randn({2, 3, 6, 6});
  nn::MaxPool2d max(3, {.stride = 2, .padding = 1});
  nn::AvgPool2d avg(2);
  nn::AdaptiveAvgPool2d adaptive({2, 3});
  nn::AdaptiveMaxPool2d greatest(1);
  nn::LPPool2d norm(2, 3);
  nn::MaxUnpool2d unpool(2);
  EXPECT_EQ(values(max(x)), values(max_pool2d(x, 3, {.stride = 2, .padding = 1})));
  EXPECT_EQ(values(avg(x)), values(avg_pool2d(x, 2)));
  EXPECT_EQ(values(adaptive(x)), values(adaptive_avg_pool2d(x, {2, 3})));
  EXPECT_EQ(values(greatest(x)), values(adaptive_max_pool2d(x, 1)));
  EXPECT_EQ(values(norm(x)), values(lp_pool2d(x, 2, 3)));
  const auto [pooled, indices] = max_pool2d_with_indices(x, 2);
  EXPECT_EQ(values(unpool(pooled, indices)), values(max_unpool2d(pooled, indices, 2)));
  EXPECT_EQ(max.state_dict().size(), 0u);
}

}  // namespace
}  // namespace lockstep
