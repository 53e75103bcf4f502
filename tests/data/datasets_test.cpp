// Datasets built from others: subsets, concatenations, and mapped samples.
#include <lockstep/data/datasets.h>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>

#include "support/thrown.h"

namespace lockstep::data {
namespace {

using Integers = std::vector<std::int64_t>;

struct Counted {
  std::int64_t count, first = 0;
  std::int64_t size() const { return count; }
  std::int64_t get(std::int64_t index) const { return first + index; }
};

template <class D>
Integers all(const D& dataset) {
  Integers values;
  for (std::int64_t i = 0; i < dataset.size(); ++i) values.push_back(dataset.get(i));
  return values;
}

TEST(Subset, GivesTheSamplesAtItsIndices) { EXPECT_EQ(all(Subset(Counted{5}, {4, 0, 4})), (Integers{4, 0, 4})); }

TEST(Subset, MakesBatchesAsTheDatasetDoes) {
  const Subset part(TensorDataset(tensor({10, 11, 12, 13})), {3, 1, 0});
  static_assert(BatchDataset<decltype(part)>);
  const Integers wanted = {0, 2};
  EXPECT_EQ(part.get_batch(wanted).to_vector<std::int64_t>(), (Integers{13, 10}));
}

TEST(Subset, RefusesIndicesThatAreNotThere) {
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              Subset(Counted{2}, {0, 2});
            }),
            "[Subset] expected an index in [0, 2), got 2");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] { Subset(Counted{2}, {0}).get(1); }),
            "[Subset] expected an index in [0, 1), got 1");
}

TEST(RandomSplit, DividesEverySampleOnce) {
  const auto [a, b] = random_split(Counted{10}, {7, 3}, {.seed = 4});
  EXPECT_EQ(a.size(), 7);
  EXPECT_EQ(b.size(), 3);
  std::set<std::int64_t> seen;
  for (const auto& part : {all(a), all(b)}) seen.insert(part.begin(), part.end());
  EXPECT_EQ(seen.size(), 10u);
}

TEST(RandomSplit, FollowsFromTheSeed) {
  EXPECT_EQ(all(random_split(Counted{50}, {50}, {.seed = 1})[0]), all(random_split(Counted{50}, {50}, {.seed = 1})[0]));
  EXPECT_NE(all(random_split(Counted{50}, {50}, {.seed = 1})[0]), all(random_split(Counted{50}, {50}, {.seed = 2})[0]));
}

// As torch.utils.data.random_split documents: floor(fraction * length), then one more each for the first parts.
TEST(RandomSplit, RoundsSharesDownAndGivesTheRestToTheFirstParts) {
  const auto parts = random_split(Counted{11}, {0.3, 0.3, 0.4});
  EXPECT_EQ(parts[0].size(), 4);
  EXPECT_EQ(parts[1].size(), 3);
  EXPECT_EQ(parts[2].size(), 4);
}

TEST(RandomSplit, RefusesOtherSums) {
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              random_split(Counted{5}, {2, 2});
            }),
            "[random_split] expected lengths that sum to 5, got 4");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              random_split(Counted{5}, {4, 2});
            }),
            "[random_split] expected lengths that sum to 5, got more");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              random_split(Counted{5}, {6, -1});
            }),
            "[random_split] expected lengths that sum to 5, got more");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              random_split(Counted{5}, {-1, 6});
            }),
            "[random_split] expected lengths >= 0, got -1");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              random_split(Counted{5}, {0.5, 0.25});
            }),
            "[random_split] expected lengths that are integers, or shares that sum to 1, got 0.75");
}

TEST(ConcatDataset, GivesOneAfterTheOther) {
  const ConcatDataset both(Counted{2, 10}, Counted{0}, Subset(Counted{9}, {7, 8}));
  EXPECT_EQ(both.size(), 4);
  EXPECT_EQ(all(both), (Integers{10, 11, 7, 8}));
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] { both.get(4); }),
            "[ConcatDataset] expected an index in [0, 4), got 4");
}

TEST(ConcatDataset, TakesAsManyAsThereAre) {
  const std::vector<Counted> parts = {{2, 10}, {0}, {1, 5}};
  const ConcatDataset joined(parts);
  EXPECT_EQ(all(joined), (Integers{10, 11, 5}));
  EXPECT_EQ(ConcatDataset(std::vector<Counted>()).size(), 0);
}

TEST(RandomSplit, TakesAsManyLengthsAsThereAre) {
  const std::vector<double> shares = {0.3, 0.3, 0.4};
  const auto parts = random_split(Counted{11}, shares, {.seed = 3});
  const auto same = random_split(Counted{11}, {0.3, 0.3, 0.4}, {.seed = 3});
  ASSERT_EQ(parts.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(all(parts[i]), all(same[i]));
  EXPECT_EQ(random_split(Counted{3}, std::vector<int>{1, 2})[1].size(), 2);
}

TEST(MapDataset, GivesWhatTheFunctionMakesOfASample) {
  EXPECT_EQ(all(MapDataset(Counted{3}, [](std::int64_t x) { return x * x; })), (Integers{0, 1, 4}));
}

TEST(MapDataset, ChangesTheFirstPartOfATupleAlone) {
  const auto twice = [](const Tensor& image) { return image * 2; };
  const MapDataset dataset(TensorDataset(tensor({1, 2}), tensor({5, 6})), twice);
  const auto [image, label] = dataset.get(1);
  EXPECT_EQ(image.item<int>(), 4);
  EXPECT_EQ(label.item<int>(), 6);
}

TEST(MapDataset, GivesAWholeTupleToAFunctionThatTakesIt) {
  const auto sum = [](const std::tuple<Tensor, Tensor>& sample) { return std::get<0>(sample) + std::get<1>(sample); };
  EXPECT_EQ(MapDataset(TensorDataset(tensor({1, 2}), tensor({5, 6})), sum).get(1).item<int>(), 8);
}

TEST(MapDataset, IsReadByALoaderWithWorkers) {
  const MapDataset squares(Counted{8}, [](std::int64_t x) { return x * x; });
  Integers seen;
  DataLoader loader(squares, {.batch_size = 3, .num_workers = 2});
  for (const Tensor& batch : loader)
    for (const std::int64_t value : batch.to_vector<std::int64_t>()) seen.push_back(value);
  EXPECT_EQ(seen, (Integers{0, 1, 4, 9, 16, 25, 36, 49}));
}

}  // namespace
}  // namespace lockstep::data
