// Loaders with a share: the processes' rows, joined, are the batches of a single process.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"

namespace lockstep::data::loader_share_test {
namespace {

using testing::thrown;

using Batches = std::vector<std::vector<float>>;

// Each sample has its index and a random number drawn by get().
struct Drawing {
  std::int64_t length;
  std::int64_t size() const { return length; }
  Tensor get(std::int64_t index) const {
    Tensor sample = rand({2});
    sample.select(0, 0).fill_(double(index));
    return sample;
  }
};

struct Grid {
  int processes;
  int devices;
  BatchShare share(int process) const { return {.process = process, .processes = processes, .devices = devices}; }
};
constexpr Grid kGrids[] = {{1, 8}, {2, 4}, {4, 2}, {8, 1}};

/// Returns the batches from the loader's position to the end of its epoch.
template <class Loader>
Batches rest_of_epoch(Loader& loader) {
  Batches batches;
  for (const Tensor& batch : loader) batches.push_back(batch.template to_vector<float>());
  return batches;
}

/// Returns the batches of all processes; in each, the rows of the processes in order.
template <class MakeLoader>
Batches joined(const Grid& grid, const MakeLoader& make_loader) {
  Batches all;
  for (int p = 0; p < grid.processes; ++p) {
    auto loader = make_loader(grid.share(p));
    const Batches mine = rest_of_epoch(loader);
    if (p == 0) all.resize(mine.size());
    EXPECT_EQ(mine.size(), all.size()) << "process " << p;
    for (std::size_t b = 0; b < std::min(mine.size(), all.size()); ++b)
      all[b].insert(all[b].end(), mine[b].begin(), mine[b].end());
  }
  return all;
}

// 20 rows on 8 devices: the last device has none, the one before it 2. The last batch has 3 rows.
TEST(DataLoaderShare, OfAllProcessesTogetherIsTheBatchesOfOne) {
  DataLoader whole(Drawing{103}, {.batch_size = 20, .shuffle = true, .seed = 5});
  const Batches expected = rest_of_epoch(whole);
  ASSERT_EQ(expected.size(), 6u);
  for (const Grid& grid : kGrids)
    for (const int workers : {0, 2})
      EXPECT_EQ(joined(grid,
                       [&](const BatchShare& share) {
                         return DataLoader(
                             Drawing{103},
                             {.batch_size = 20, .shuffle = true, .seed = 5, .num_workers = workers, .share = share});
                       }),
                expected)
          << grid.processes << " x " << grid.devices << ", workers " << workers;
}

TEST(DataLoaderShare, OfASamplerThatRepeatsSamplesDrawsTheNumbersOfOneProcess) {
  const RandomSampler sampler(5, {.seed = 2, .replacement = true, .num_samples = 41});
  DataLoader whole(Drawing{5}, sampler, {.batch_size = 16, .seed = 5});
  const Batches expected = rest_of_epoch(whole);
  for (const Grid& grid : kGrids)
    EXPECT_EQ(joined(grid,
                     [&](const BatchShare& share) {
                       return DataLoader(Drawing{5}, sampler, {.batch_size = 16, .seed = 5, .share = share});
                     }),
              expected)
        << grid.processes << " x " << grid.devices;
}

TEST(DataLoaderShare, GivesAProcessWithoutRowsABatchOfNone) {
  const TensorDataset<2> dataset(ones({21, 3}), ones({21}));
  DataLoader loader(dataset, {.batch_size = 8, .seed = 1, .share = {.process = 3, .processes = 4, .devices = 2}});
  std::vector<Shape> inputs, targets;
  for (const auto& [input, target] : loader) {
    inputs.push_back(input.sizes());
    targets.push_back(target.sizes());
  }
  EXPECT_EQ(inputs, (std::vector<Shape>{{2, 3}, {2, 3}, {0, 3}}));
  EXPECT_EQ(targets, (std::vector<Shape>{{2}, {2}, {0}}));
}

// This dataset has no get_batch(), unlike TensorDataset.
TEST(DataLoaderShare, GivesAProcessWithoutRowsWhatTheCollationOfOneSampleGives) {
  struct Mixed {
    std::int64_t size() const { return 1; }
    std::tuple<Tensor, double> get(std::int64_t) const { return {ones({4, 2}), 0.5}; }
  };
  DataLoader loader(Mixed(), {.seed = 1, .share = {.process = 1, .processes = 2}});
  auto it = loader.begin();
  EXPECT_EQ(std::get<0>(*it).sizes(), (Shape{0, 4, 2}));
  EXPECT_EQ(std::get<1>(*it).sizes(), Shape{0});
  EXPECT_EQ(std::get<1>(*it).dtype(), tensor({0.5}).dtype());
}

TEST(DataLoaderShare, RefusesABatchOfNoRowsOfWhatMayHideTensors) {
  struct Opaque {
    explicit Opaque(Tensor given) : hidden(std::move(given)) {}
    Tensor hidden;
  };
  DataLoader loader(Drawing{1}, {.seed = 1, .share = {.process = 1, .processes = 2}},
                    [](const std::vector<Tensor>& samples) { return Opaque(samples[0]); });
  EXPECT_EQ(
      thrown<InvalidArgument>([&] { loader.begin(); }),
      "[DataLoader] cannot find the tensors in the batch type, to make a batch of no rows. Give the struct a members() "
      "function, or use a tuple of tensors (in batch 0)");
}

TEST(DataLoaderShare, TellsTheRowsOfTheWholeBatch) {
  const DataLoader loader(Drawing{21}, {.batch_size = 8, .seed = 1, .share = {.process = 1, .processes = 4}});
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(loader.rows_in(0), 8);
  EXPECT_EQ(loader.rows_in(2), 5);
  EXPECT_EQ(thrown<InvalidArgument>([&] { loader.rows_in(3); }),
            "[DataLoader] rows_in(3): an epoch has batches 0 to 2");
  EXPECT_THROW(loader.rows_in(-1), InvalidArgument);
}

TEST(DataLoaderShare, GivesCollationsTheSameNumbersInAllProcesses) {
  std::vector<std::vector<float>> drawn;
  for (int p = 0; p < 2; ++p) {
    DataLoader loader(Drawing{8}, {.batch_size = 4, .seed = 1, .share = {.process = p, .processes = 2}},
                      [](const std::vector<Tensor>&) { return rand({}).item<float>(); });
    std::vector<float>& numbers = drawn.emplace_back();
    for (const float number : loader) numbers.push_back(number);
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_NE(drawn[0][0], drawn[0][1]);
}

TEST(DataLoaderShare, GoesOnFromTheStateOfAnotherNumberOfProcesses) {
  const auto make = [](std::uint64_t seed, const BatchShare& share) {
    return DataLoader(Drawing{103}, {.batch_size = 20, .shuffle = true, .seed = seed, .share = share});
  };
  auto whole = make(5, {});
  Batches expected = rest_of_epoch(whole);
  expected.erase(expected.begin(), expected.begin() + 2);
  for (const Grid& before : kGrids) {
    auto loader = make(5, before.share(before.processes - 1));
    auto it = loader.begin();
    ++it;
    const LoaderState state = loader.state();
    EXPECT_EQ(state, (LoaderState{.seed = 5, .epoch = 0, .batch = 2, .batch_size = 20}));
    for (const Grid& after : kGrids)
      EXPECT_EQ(joined(after,
                       [&](const BatchShare& share) {
                         auto resumed = make(99, share);
                         resumed.load_state(state);
                         return resumed;
                       }),
                expected)
          << before.processes << " then " << after.processes;
  }
}

TEST(DataLoaderShare, RefusesAShareWithoutASeedAndOneThatIsNone) {
  EXPECT_EQ(thrown<InvalidArgument>([] { DataLoader(Drawing{8}, {.share = {.process = 1, .processes = 2}}); }),
            "[DataLoader] expected a seed, the same in all processes, with a share of the rows, got none");
  EXPECT_THROW(DataLoader(Drawing{8}, {.seed = 1, .share = {.process = 2, .processes = 2}}), InvalidArgument);
  EXPECT_NO_THROW(DataLoader(Drawing{8}, {.share = {.devices = 4}})) << "all rows";
}

}  // namespace
}  // namespace lockstep::data::loader_share_test
