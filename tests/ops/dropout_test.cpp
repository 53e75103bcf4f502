#include <lockstep/ops/dropout.h>

#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/batch_shard.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "core/context.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

std::vector<float> dropped_ones(const Shape& sizes, double p) {
  manual_seed(5);
  return dropout(ones(sizes), p).to_vector<float>();
}

TEST(Dropout, DropsAShareAndScalesTheRest) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const std::vector<float> out = dropped_ones({100000}, p);
    double kept = 0;
    for (const float value : out) {
      EXPECT_TRUE(value == 0 || value == float(1 / (1 - p))) << value;
      kept += value != 0;
    }
    EXPECT_NEAR(kept / 100000, 1 - p, 5 * std::sqrt(p * (1 - p) / 100000)) << p;  // five standard deviations
  }
}

TEST(Dropout, LeavesAloneWhatItIsNotToDrop) {
  const Tensor x = randn({3, 4});
  const GeneratorState before = current_generator();
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
  EXPECT_TRUE(dropout(x, 0).is_same(x));
  EXPECT_EQ(current_generator(), before);
  EXPECT_EQ(dropout(x, 1).to_vector<float>(), std::vector<float>(12, 0));
}

TEST(Dropout, RefusesWhatItCannotDo) {
  EXPECT_THROW(dropout(Tensor(), 0.5), InvalidArgument);
  EXPECT_THROW(dropout(tensor({1, 2}), 0.5), DTypeError);
  for (const double p : {-0.1, 1.1, std::nan("")}) EXPECT_THROW(dropout(ones({2}), p), InvalidArgument) << p;
}

TEST(Dropout, DropsTheSameElementsForEveryDtypeLayoutAndDevice) {
  const TestDevices devices(1);
  const std::vector<float> expected = dropped_ones({30, 70}, 0.4);
  const auto kept = [&](const Tensor& x) {
    manual_seed(5);
    std::vector<float> out = dropout(x, 0.4).to(kFloat32).cpu().to_vector<float>();
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i] != 0, expected[i] != 0) << i;
  };
  for (const DType dtype : {kFloat16, kBFloat16, kFloat64}) kept(ones({30, 70}, {.dtype = dtype}));
  kept(ones({70, 30}).t());
  kept(ones({30, 70}, {.device = "cuda:0"}));
}

TEST(Dropout, GivesTheGradientTheSameMask) {
  const Tensor x = ones({50, 3}, {.requires_grad = true});
  const Tensor y = dropout(x, 0.5);
  sum(y * 3).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (y * 3).detach().to_vector<float>());
}

TEST(Dropout, DropsFromShardsWhatItDropsFromTheWholeBatch) {
  const Shape sizes = {5, 7, 9};
  for (const int dim : {0, 1, -1}) {
    manual_seed(5);
    const Tensor whole = dropout(ones(sizes), 0.4);
    const std::int64_t total = sizes[dim < 0 ? dim + 3 : dim];
    std::vector<Tensor> parts;
    for (std::int64_t first = 0, rows = 1; first < total;
         first += rows, rows = std::min<std::int64_t>(3, total - first)) {
      manual_seed(5);
      GeneratorState shared = current_generator();
      const BatchShard shard = {.dim = dim, .first = first, .count = rows, .total = total};
      Context replica = {.shard = &shard, .batch_generator = &shared};
      const ContextScope scope(replica);
      parts.push_back(dropout(ones(sizes).narrow(dim, first, rows), 0.4));
    }
    EXPECT_EQ(cat(parts, dim).to_vector<float>(), whole.to_vector<float>()) << "dim " << dim;
  }
}

TEST(BatchPlace, CountsWhatIsNoMultipleOfTheShardAsWhole) {
  const BatchShard shard = {.first = 4, .count = 3, .total = 10};
  Context replica = {.shard = &shard};
  const ContextScope scope(replica);
  EXPECT_EQ(place_in_batch({6, 5}).first, 4 * 10) << "two to a row";
  EXPECT_EQ(place_in_batch({4, 5}).first, 0);
  EXPECT_EQ(place_in_batch({}).first, 0);
  EXPECT_EQ(place_in_batch({0, 5}).run, 0);
}

}  // namespace
}  // namespace lockstep
