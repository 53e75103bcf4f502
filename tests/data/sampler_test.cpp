#include <lockstep/data/sampler.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include <lockstep/core/error.h>
#include <lockstep/runtime/simulation.h>

#include "support/thrown.h"

namespace lockstep::data {
namespace {

using testing::thrown;

using Indices = std::vector<std::int64_t>;

Indices counting(std::int64_t count) {
  Indices order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::map<std::int64_t, int> histogram(const Indices& indices) {
  std::map<std::int64_t, int> counts;
  for (const auto index : indices) ++counts[index];
  return counts;
}

static_assert(Sampler<SequentialSampler> && Sampler<RandomSampler> && Sampler<WeightedRandomSampler> &&
              Sampler<DistributedSampler>);

TEST(SequentialSampler, CountsUpInEveryEpoch) {
  const SequentialSampler sampler(4);
  EXPECT_EQ(sampler.size(), 4);
  EXPECT_EQ(sampler.indices(0), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(sampler.indices(7), (Indices{0, 1, 2, 3}));
}

TEST(SequentialSampler, OfAnEmptyDatasetIsEmpty) { EXPECT_TRUE(SequentialSampler(0).indices(0).empty()); }

TEST(RandomSampler, GivesAPermutation) {
  const RandomSampler sampler(100, {.seed = 3});
  EXPECT_EQ(sampler.size(), 100);
  EXPECT_NE(sampler.indices(0), counting(100));
  EXPECT_EQ(sorted(sampler.indices(0)), counting(100));
}

TEST(RandomSampler, GivesANewOrderInEachEpochAndForEachSeed) {
  std::set<Indices> orders;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::int64_t epoch = 0; epoch < 10; ++epoch) orders.insert(RandomSampler(50, {.seed = seed}).indices(epoch));
  EXPECT_EQ(orders.size(), 100u);
}

TEST(RandomSampler, IsTheSameForOneSeedAndEpoch) {
  EXPECT_EQ(RandomSampler(50, {.seed = 5}).indices(2), RandomSampler(50, {.seed = 5}).indices(2));
}

// Recorded from the first version: a change would give resumed training other batches.
TEST(RandomSampler, DoesNotChangeBetweenVersions) {
  EXPECT_EQ(RandomSampler(8, {.seed = 1}).indices(0), (Indices{3, 4, 1, 5, 2, 0, 6, 7}));
}

TEST(RandomSampler, FindsEveryPermutationEquallyOften) {
  std::map<Indices, int> counts;
  const int epochs = 24'000;
  for (int epoch = 0; epoch < epochs; ++epoch) ++counts[RandomSampler(4).indices(epoch)];
  EXPECT_EQ(counts.size(), 24u);
  // 1000 expected each, with a standard deviation of 31.
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 5 * 31);
}

TEST(RandomSampler, WithReplacementRepeatsAndLeavesOut) {
  const Indices indices = RandomSampler(100, {.replacement = true}).indices(0);
  EXPECT_EQ(indices.size(), 100u);
  EXPECT_LT(histogram(indices).size(), 100u);
  EXPECT_GE(sorted(indices).front(), 0);
  EXPECT_LT(sorted(indices).back(), 100);
}

TEST(RandomSampler, WithReplacementDrawsAsManyAsAsked) {
  const RandomSampler sampler(10, {.replacement = true, .num_samples = 10'000});
  EXPECT_EQ(sampler.size(), 10'000);
  const auto counts = histogram(sampler.indices(0));
  EXPECT_EQ(counts.size(), 10u);
  for (const auto& [index, count] : counts) EXPECT_NEAR(count, 1000, 5 * 30);
}

TEST(RandomSampler, WithFewerSamplesGivesTheBeginningOfAPermutation) {
  const Indices all = RandomSampler(10).indices(0);
  EXPECT_EQ(RandomSampler(10, {.num_samples = 4}).indices(0), Indices(all.begin(), all.begin() + 4));
}

TEST(RandomSampler, WithMoreSamplesGivesSeveralPermutations) {
  const Indices indices = RandomSampler(10, {.num_samples = 25}).indices(0);
  ASSERT_EQ(indices.size(), 25u);
  const Indices first(indices.begin(), indices.begin() + 10);
  const Indices second(indices.begin() + 10, indices.begin() + 20);
  EXPECT_EQ(sorted(first), counting(10));
  EXPECT_EQ(sorted(second), counting(10));
  EXPECT_NE(first, second);
}

TEST(RandomSampler, OfAnEmptyDatasetIsEmpty) { EXPECT_TRUE(RandomSampler(0).indices(0).empty()); }

TEST(RandomSampler, RefusesWhatCannotBeDrawn) {
  EXPECT_THROW(RandomSampler(-1), InvalidArgument);
  EXPECT_THROW(RandomSampler(5, {.num_samples = -1}), InvalidArgument);
  EXPECT_THROW(RandomSampler(0, {.num_samples = 1}), InvalidArgument);
  EXPECT_THROW(RandomSampler(5).indices(-1), InvalidArgument);
}

TEST(WeightedRandomSampler, DrawsInProportionToTheWeights) {
  const WeightedRandomSampler sampler({1, 0, 3, 4, 2}, 100'000, {.seed = 11});
  auto counts = histogram(sampler.indices(0));
  // Five standard deviations of a binomial distribution are below 800.
  EXPECT_NEAR(counts[0], 10'000, 800);
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[2], 30'000, 800);
  EXPECT_NEAR(counts[3], 40'000, 800);
  EXPECT_NEAR(counts[4], 20'000, 800);
}

TEST(WeightedRandomSampler, IsDeterministicAndNewInEachEpoch) {
  const WeightedRandomSampler sampler({1, 2, 3}, 50, {.seed = 4});
  EXPECT_EQ(sampler.indices(1), sampler.indices(1));
  EXPECT_NE(sampler.indices(0), sampler.indices(1));
}

TEST(WeightedRandomSampler, WithoutReplacementGivesEachIndexOnce) {
  const WeightedRandomSampler sampler({0.1, 0, 5, 0.7, 100}, 4, {.replacement = false});
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) EXPECT_EQ(sorted(sampler.indices(epoch)), (Indices{0, 2, 3, 4}));
}

TEST(WeightedRandomSampler, WithoutReplacementFindsEveryOrderOfEqualWeightsEquallyOften) {
  std::map<Indices, int> counts;
  const WeightedRandomSampler sampler({1, 1, 1}, 3, {.replacement = false});
  for (int epoch = 0; epoch < 6000; ++epoch) ++counts[sampler.indices(epoch)];
  EXPECT_EQ(counts.size(), 6u);
  // 1000 expected each, with a standard deviation of 29.
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 5 * 29);
}

TEST(WeightedRandomSampler, WithoutReplacementPrefersLargeWeights) {
  const WeightedRandomSampler sampler({1, 3}, 1, {.replacement = false});
  int second = 0;
  for (std::int64_t epoch = 0; epoch < 10'000; ++epoch) second += sampler.indices(epoch)[0] == 1;
  EXPECT_NEAR(second, 7500, 5 * 43);
}

TEST(WeightedRandomSampler, NeverDrawsAWeightOfZero) {
  // Weights so different that their sums round.
  const WeightedRandomSampler sampler({0, 1e-300, 0, 1e300, 0, 1e-10, 0}, 3, {.replacement = false});
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) EXPECT_EQ(sorted(sampler.indices(epoch)), (Indices{1, 3, 5}));
}

TEST(WeightedRandomSampler, RefusesWeightsThatAreNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THROW(WeightedRandomSampler({}, 1), InvalidArgument);
  EXPECT_THROW(WeightedRandomSampler({0, 0}, 1), InvalidArgument);
  EXPECT_THROW(WeightedRandomSampler({1, -1}, 1), InvalidArgument);
  EXPECT_THROW(WeightedRandomSampler({1, nan}, 1), InvalidArgument);
  EXPECT_THROW(WeightedRandomSampler({1, infinity}, 1), InvalidArgument);
  EXPECT_THROW(WeightedRandomSampler({1e308, 1e308}, 1), InvalidArgument);
  EXPECT_THROW(WeightedRandomSampler({1, 1}, -1), InvalidArgument);
  EXPECT_THROW(WeightedRandomSampler({1, 0, 1}, 3, {.replacement = false}), InvalidArgument);
}

TEST(DistributedSampler, SharesAreDisjointAndCoverTheDataset) {
  Indices all;
  for (int rank = 0; rank < 4; ++rank) {
    const DistributedSampler sampler(20, {.rank = rank, .world = 4, .seed = 9});
    EXPECT_EQ(sampler.size(), 5);
    const Indices share = sampler.indices(3);
    EXPECT_EQ(share.size(), 5u);
    all.insert(all.end(), share.begin(), share.end());
  }
  EXPECT_EQ(sorted(all), counting(20));
}

TEST(DistributedSampler, RanksAgreeOnOneShuffledOrder) {
  const Indices order = RandomSampler(6, {.seed = 9}).indices(2);
  for (int rank = 0; rank < 3; ++rank) {
    const Indices share = DistributedSampler(6, {.rank = rank, .world = 3, .seed = 9}).indices(2);
    EXPECT_EQ(share, (Indices{order[std::size_t(rank)], order[std::size_t(rank) + 3]}));
  }
}

TEST(DistributedSampler, ShufflesAnewInEachEpoch) {
  const DistributedSampler sampler(100, {.rank = 1, .world = 2});
  EXPECT_NE(sampler.indices(0), sampler.indices(1));
}

TEST(DistributedSampler, PadsWithTheFirstSamples) {
  EXPECT_EQ(DistributedSampler(5, {.rank = 0, .world = 3, .shuffle = false}).indices(0), (Indices{0, 3}));
  EXPECT_EQ(DistributedSampler(5, {.rank = 1, .world = 3, .shuffle = false}).indices(0), (Indices{1, 4}));
  EXPECT_EQ(DistributedSampler(5, {.rank = 2, .world = 3, .shuffle = false}).indices(0), (Indices{2, 0}));
}

TEST(DistributedSampler, PadsRepeatedlyWhereThereAreFewerSamplesThanRanks) {
  for (int rank = 0; rank < 7; ++rank)
    EXPECT_EQ(DistributedSampler(2, {.rank = rank, .world = 7, .shuffle = false}).indices(0), (Indices{rank % 2}));
}

TEST(DistributedSampler, DropsTheLastSamplesWhenAsked) {
  EXPECT_EQ(DistributedSampler(5, {.rank = 0, .world = 3, .shuffle = false, .drop_last = true}).indices(0),
            (Indices{0}));
  EXPECT_EQ(DistributedSampler(5, {.rank = 2, .world = 3, .shuffle = false, .drop_last = true}).indices(0),
            (Indices{2}));
  EXPECT_EQ(DistributedSampler(2, {.rank = 0, .world = 3, .drop_last = true}).size(), 0);
}

TEST(DistributedSampler, OfAnEmptyDatasetIsEmpty) {
  EXPECT_TRUE(DistributedSampler(0, {.rank = 1, .world = 2}).indices(0).empty());
}

TEST(DistributedSampler, OfAWorldHasItsRankAndSize) {
  for (const World& world : simulate_processes(3)) {
    const DistributedSampler sampler(11, world, {.seed = 9, .drop_last = true});
    const DistributedSampler expected(11, {.rank = world.rank().value(), .world = 3, .seed = 9, .drop_last = true});
    EXPECT_EQ(sampler.indices(1), expected.indices(1));
  }
  EXPECT_EQ(DistributedSampler(4, World(), {.shuffle = false}).indices(0), (Indices{0, 1, 2, 3}));
}

TEST(DistributedSampler, OfAWorldTakesNoOtherRank) {
  EXPECT_EQ(thrown<InvalidArgument>([] { DistributedSampler(4, World(), {.rank = 1, .world = 2}); }),
            "[DistributedSampler] expected a World or .rank and .world, got both: a World, and rank 1 of 2");
}

TEST(DistributedSampler, RefusesRanksOutsideOfTheWorld) {
  EXPECT_THROW(DistributedSampler(5, {.rank = 2, .world = 2}), InvalidArgument);
  EXPECT_THROW(DistributedSampler(5, {.rank = -1, .world = 2}), InvalidArgument);
  EXPECT_THROW(DistributedSampler(5, {.rank = 0, .world = 0}), InvalidArgument);
  EXPECT_THROW(DistributedSampler(-5, {.rank = 0, .world = 1}), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::data
