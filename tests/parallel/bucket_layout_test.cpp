// The places of gradients in buckets, and each device's shard of a bucket.
#include "parallel/bucket_layout.h"

#include <gtest/gtest.h>

#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>

#include "parallel/bucketed_parameter.h"
#include "parallel/sharded.h"
#include "support/test_devices.h"

namespace lockstep::sharded {
namespace {

// Parameters with these numbers of elements on each device, all in one sharded bucket.
BucketLayout layout_of(const std::vector<std::int64_t>& elements, int devices, DType dtype = kFloat32) {
  std::vector<std::vector<Tensor>> parameters;
  std::vector<std::size_t> order;
  for (const std::int64_t count : elements) {
    order.push_back(parameters.size());
    std::vector<Tensor>& places = parameters.emplace_back();
    for (int d = 0; d < devices; ++d)
      places.push_back(ones({count}, {.dtype = dtype, .device = Device::cuda(d)}).requires_grad_());
  }
  return lay_out_buckets(parameters, order, {.first_bytes = 1 << 20, .bytes = 1 << 20}, Shard::optimizer_state);
}

std::vector<std::int64_t> sizes_of_shards(const BucketLayout& layout, std::size_t entry) {
  std::vector<std::int64_t> sizes;
  for (const autograd::ShardRange& shard : layout.slots[entry].shards) sizes.push_back(shard.size());
  return sizes;
}

TEST(BucketLayout, EachGradientBeginsAtAMultipleOfSixtyFourElements) {
  const TestDevices devices(2);
  for (const DType dtype : {kFloat16, kFloat32, kFloat64}) {
    const BucketLayout layout = layout_of({10, 15, 1, 129, 64, 3}, 2, dtype);
    ASSERT_EQ(layout.buckets.size(), 1u);
    for (std::size_t entry = 0; entry < layout.slots.size(); ++entry)
      for (const Tensor& memory : layout.slots[entry].memory) EXPECT_EQ(memory.impl()->offset % 64, 0) << entry;
  }
}

TEST(BucketLayout, DevicesHaveEqualAndAlignedShards) {
  const TestDevices devices(5);
  for (const int count : {1, 2, 3, 5})
    for (const std::vector<std::int64_t>& elements :
         {std::vector<std::int64_t>{7}, {1000, 1}, {64, 64, 64}, {10, 5000, 333}}) {
      const BucketLayout layout = layout_of(elements, count);
      const BucketMemory& bucket = layout.buckets.at(0);
      ASSERT_EQ(bucket.counts.size(), std::size_t(count));
      for (const std::size_t shard : bucket.counts) EXPECT_EQ(shard, bucket.counts[0]);
      EXPECT_EQ(bucket.counts[0] % 64, 0u);
      EXPECT_EQ(bucket.flats[0].numel(), std::int64_t(bucket.counts[0]) * count);
    }
}

TEST(BucketLayout, SharesBeginAtMultiplesOfSixtyFourElementsAndAreAllElementsOnce) {
  const TestDevices devices(4);
  const BucketLayout layout = layout_of({7, 300, 1, 777}, 4);  // 64 + 320 + 64 + 832 elements: shards of 320
  EXPECT_EQ(sizes_of_shards(layout, 0), (std::vector<std::int64_t>{7, 0, 0, 0}));
  EXPECT_EQ(sizes_of_shards(layout, 1), (std::vector<std::int64_t>{256, 44, 0, 0}));
  EXPECT_EQ(sizes_of_shards(layout, 2), (std::vector<std::int64_t>{0, 1, 0, 0}));
  EXPECT_EQ(sizes_of_shards(layout, 3), (std::vector<std::int64_t>{0, 192, 320, 265}));
  EXPECT_EQ(sizes_of_shards(layout_of({7}, 4), 0), (std::vector<std::int64_t>{7, 0, 0, 0}));
}

// Every element of the bucket that contains the slot.
std::vector<double> whole_bucket(const Tensor& slot) {
  const std::int64_t elements = std::int64_t(slot.impl()->storage->bytes / size_of(slot.dtype()));
  return values(make_view(slot, {elements}, {1}, 0));
}

std::size_t nonzeros(const std::vector<double>& numbers) {
  return std::size_t(std::ranges::count_if(numbers, [](double x) { return x != 0; }));
}

class Buckets : public ::testing::TestWithParam<bool> {};

TEST_P(Buckets, HoldZerosBesideTheirGradientsThroughoutTraining) {
  const TestDevices devices(3);
  DataParallel model(nn::Linear(5, 77), {.shard = GetParam() ? Shard::optimizer_state : Shard::none});
  optim::Adam optimizer(model.parameters(), {});
  for (int step = 0; step < 4; ++step) {
    if (step % 2 == 0) optimizer.zero_grad();  // else accumulates
    sum(model(randn({8, 5}, {.device = "cuda:0"}))).backward();
    optim::clip_grad_norm_(model.parameters(), 1);
    optimizer.step();
    for (int d = 0; d < 3; ++d) {
      std::size_t gradients = 0;
      Tensor slot;
      for (const Tensor& parameter : model.parameters()) {
        slot = static_cast<BucketedParameter*>(autograd::replica_of(parameter)->parameter)->slot(std::size_t(d));
        gradients += nonzeros(values(slot));
      }
      EXPECT_EQ(nonzeros(whole_bucket(slot)), gradients) << "after step " << step << " on cuda:" << d;
      EXPECT_EQ(whole_bucket(slot).size(), 576u);  // 385 padded to 448, 77 to 128: 3 x 192
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WholeAndDividedState, Buckets, ::testing::Bool());

}  // namespace
}  // namespace lockstep::sharded
