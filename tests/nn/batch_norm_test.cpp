// Batch and instance normalization layers: their state, the shapes of x that they take, and lazy forms.
#include <lockstep/nn/batch_norm.h>

#include <gtest/gtest.h>

#include <lockstep/nn/instance_norm.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

std::vector<std::string> keys_of(const nn::ModuleBase& layer) {
  std::vector<std::string> keys;
  for (const auto& [name, value] : layer.state_dict()) keys.push_back(name);
  return keys;
}

TEST(BatchNormLayers, TakeImagesOfTheirDimensions) {
  EXPECT_EQ(nn::BatchNorm2d(3)(randn({2, 3, 4, 5})).sizes(), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(nn::BatchNorm3d(3)(randn({2, 3, 4, 5, 2})).sizes(), (Shape{2, 3, 4, 5, 2}));
  EXPECT_EQ(thrown<ShapeError>([] {
              nn::BatchNorm2d(3)(zeros({2, 3}));
            }),
            "[BatchNorm2d] expected x [batch, 3, ...] of 4 dimensions, got [2, 3]");
  EXPECT_EQ(thrown<ShapeError>([] {
              nn::BatchNorm1d(3)(zeros({2, 3, 1, 1}));
            }),
            "[BatchNorm1d] expected x [batch, 3] or [batch, 3, length], got [2, 3, 1, 1]");
  EXPECT_EQ(keys_of(nn::BatchNorm2d(3)),
            (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
}

TEST(LazyBatchNorm, TakesItsFeaturesFromTheFirstBatch) {
  nn::LazyBatchNorm2d layer;
  EXPECT_THROW(layer.state_dict(), InvalidArgument);
  layer(randn({2, 4, 3, 3}, {.dtype = kFloat64}));
  EXPECT_EQ(layer.weight->sizes(), (Shape{4}));
  EXPECT_EQ(layer.running_var->dtype(), kFloat64);
  EXPECT_EQ(layer.running_var->sync(), nn::BufferSync::mean);
  EXPECT_EQ(values(*layer.num_batches_tracked), (std::vector<double>{1}));
  EXPECT_THROW(layer(randn({2, 5, 3, 3}, {.dtype = kFloat64})), ShapeError);
  nn::LazyBatchNorm2d loaded;
  loaded.load_state_dict(layer.state_dict());
  EXPECT_EQ(values(*loaded.running_mean), values(*layer.running_mean));
  EXPECT_EQ(loaded.running_mean->sync(), nn::BufferSync::mean);
  loaded.eval();
  layer.eval();
  const Tensor x = randn({1, 4, 2, 2}, {.dtype = kFloat64});
  EXPECT_EQ(values(loaded(x)), values(layer(x)));
}

TEST(InstanceNormLayers, HoldNothingUnlessAskedTo) {
  nn::InstanceNorm2d layer(3);
  EXPECT_TRUE(keys_of(layer).empty());
  const Tensor x = randn({2, 3, 4, 4});
  const std::vector<double> expected = values(layer(x));
  layer.eval();
  EXPECT_EQ(values(layer(x)), expected);
  EXPECT_EQ(values(layer(x[1])), std::vector<double>(expected.begin() + 48, expected.end()));
  EXPECT_EQ(keys_of(nn::InstanceNorm1d(3, {.affine = true, .track_running_stats = true})),
            (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_THROW(nn::InstanceNorm1d(3)(zeros({2, 4, 5})), ShapeError);
}

}  // namespace
}  // namespace lockstep
