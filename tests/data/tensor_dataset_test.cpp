#include <lockstep/data/tensor_dataset.h>

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include <lockstep/data/dataset.h>
#include <lockstep/data/loader.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"

namespace lockstep::data {
namespace {

using Integers = std::vector<std::int64_t>;

static_assert(Dataset<TensorDataset<1>> && BatchDataset<TensorDataset<2>>);
// A subclass that overrides get() alone would inherit get_batch(), which loaders would call instead.
static_assert(std::is_final_v<TensorDataset<1>> && std::is_final_v<TensorDataset<2>>);

TEST(TensorDataset, GivesTheRowsOfEachTensor) {
  const TensorDataset dataset(tensor({{1, 2}, {3, 4}, {5, 6}}), tensor({7, 8, 9}));
  EXPECT_EQ(dataset.size(), 3);
  const auto [row, label] = dataset.get(1);
  EXPECT_EQ(row.to_vector<std::int64_t>(), (Integers{3, 4}));
  EXPECT_EQ(label.item<int>(), 8);
}

TEST(TensorDataset, OfASingleTensorGivesTheRowItself) {
  const TensorDataset dataset(tensor({{1, 2}, {3, 4}}));
  const Tensor row = dataset.get(0);
  EXPECT_EQ(row.to_vector<std::int64_t>(), (Integers{1, 2}));
}

TEST(TensorDataset, SharesTheTensorsMemory) {
  Tensor values = tensor({1, 2, 3});
  const TensorDataset dataset(values);
  values.fill_(9);
  EXPECT_EQ(dataset.get(2).item<int>(), 9);
}

TEST(TensorDataset, GathersABatchOfRows) {
  const Integers indices{2, 0, 2};
  const auto [rows, labels] = TensorDataset(tensor({{1, 2}, {3, 4}, {5, 6}}), tensor({7, 8, 9})).get_batch(indices);
  EXPECT_EQ(rows.sizes(), Shape({3, 2}));
  EXPECT_EQ(rows.to_vector<std::int64_t>(), (Integers{5, 6, 1, 2, 5, 6}));
  EXPECT_EQ(labels.to_vector<std::int64_t>(), (Integers{9, 7, 9}));
}

TEST(TensorDataset, TakesAnyNumberOfTensors) {
  const Tensor x = arange(6).view({3, 2}), y = arange(3), z = arange(10, 13), w = ones({3, 1});
  DataLoader loader(TensorDataset(x, y, z, w), {.batch_size = 2});
  std::int64_t batches = 0;
  for (const auto& [a, b, c, d] : loader) {
    const std::int64_t at = 2 * batches++;
    EXPECT_EQ(a.to_vector<std::int64_t>(), x.slice(0, at, at + 2).to_vector<std::int64_t>());
    EXPECT_EQ(b.to_vector<std::int64_t>(), y.slice(0, at, at + 2).to_vector<std::int64_t>());
    EXPECT_EQ(c.to_vector<std::int64_t>(), z.slice(0, at, at + 2).to_vector<std::int64_t>());
    EXPECT_EQ(d.sizes(), (Shape{b.size(0), 1}));
  }
  EXPECT_EQ(batches, 2);
}

TEST(TensorDataset, TakesAVectorOfTensors) {
  const std::vector<Tensor> tensors = {arange(6).view({3, 2}), arange(3), arange(10, 13)};
  DataLoader loader(TensorDataset{tensors}, {.batch_size = 3});
  for (const std::vector<Tensor>& batch : loader) {
    ASSERT_EQ(batch.size(), 3u);
    EXPECT_EQ(batch[2].to_vector<std::int64_t>(), (Integers{10, 11, 12}));
  }
  EXPECT_EQ(TensorDataset(tensors).get(1)[0].to_vector<std::int64_t>(), (Integers{2, 3}));
  EXPECT_THROW(TensorDataset(std::vector<Tensor>()), InvalidArgument);
}

TEST(TensorDataset, GathersFromStridedTensors) {
  const Integers indices{1, 0};
  const Tensor rows = TensorDataset(tensor({{1, 2}, {3, 4}}).t()).get_batch(indices);
  EXPECT_EQ(rows.to_vector<std::int64_t>(), (Integers{2, 4, 1, 3}));
}

TEST(TensorDataset, GathersFromAView) {
  const Integers indices{1};
  const Tensor rows = TensorDataset(tensor({{1, 2}, {3, 4}, {5, 6}}).slice(0, 1, 3)).get_batch(indices);
  EXPECT_EQ(rows.to_vector<std::int64_t>(), (Integers{5, 6}));
}

TEST(TensorDataset, GathersRowsThroughWhichGradientsFlow) {
  const Tensor table = ones({3, 2}).requires_grad_();
  const Integers indices{2, 0, 2};
  sum(TensorDataset(table).get_batch(indices)).backward();
  EXPECT_EQ(table.grad().to_vector<float>(), (std::vector<float>{1, 1, 0, 0, 2, 2}));
}

TEST(TensorDataset, GathersOnTheDeviceOfItsTensors) {
  const TestDevices devices(1);
  const Integers indices{1, 0};
  const Tensor rows = TensorDataset(tensor({{1, 2}, {3, 4}}, {.device = "cuda:0"})).get_batch(indices);
  EXPECT_EQ(rows.device(), Device("cuda:0"));
  EXPECT_EQ(rows.to_vector<std::int64_t>(), (Integers{3, 4, 1, 2}));
}

TEST(TensorDataset, GathersRowsWithoutElements) {
  const Integers indices{1, 0};
  EXPECT_EQ(TensorDataset(zeros({4, 0})).get_batch(indices).sizes(), Shape({2, 0}));
}

TEST(TensorDataset, OfTensorsWithoutRowsIsEmpty) {
  DataLoader loader(TensorDataset(zeros({0, 5}), zeros({0})), {.batch_size = 3});
  EXPECT_EQ(loader.size(), 0);
  EXPECT_TRUE(loader.begin() == loader.end());
}

TEST(TensorDataset, NamesTheTensorWhoseLeadingSizeDiffers) {
  try {
    TensorDataset dataset(zeros({4, 2}), zeros({4}), zeros({5, 1}));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "[TensorDataset] expected tensors of one leading size, got [4, 2] at position 0 and [5, 1] at position 2");
  }
}

TEST(TensorDataset, RefusesTensorsWithoutDimensionsAndUndefinedOnes) {
  EXPECT_THROW(TensorDataset(tensor(1)), ShapeError);
  EXPECT_THROW(TensorDataset(zeros({2}), tensor(1)), ShapeError);
  EXPECT_THROW(TensorDataset(zeros({2}), Tensor()), InvalidArgument);
}

TEST(TensorDataset, RefusesIndicesOutOfRange) {
  const TensorDataset dataset(zeros({3, 2}));
  EXPECT_THROW(dataset.get(3), InvalidArgument);
  EXPECT_THROW(dataset.get(-1), InvalidArgument);
  const Integers indices{0, 3};
  EXPECT_THROW(dataset.get_batch(indices), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::data
