// Resuming: a loop that continues from a state gets the batches that would have followed.
#include <gtest/gtest.h>

#include <ranges>
#include <set>

#include <lockstep/data/loader.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"

namespace lockstep::data {
namespace {

using testing::thrown;

struct Noisy {
  std::int64_t size() const { return 23; }
  Tensor get(std::int64_t) const { return rand({3}); }
};

using Batches = std::vector<std::vector<float>>;

DataLoader<Noisy> make_loader(std::uint64_t seed) {
  return DataLoader(Noisy(), {.batch_size = 5, .shuffle = true, .seed = seed});
}

LoaderState at(std::int64_t epoch, std::int64_t batch) {
  return {.seed = 1, .epoch = epoch, .batch = batch, .batch_size = 5};
}

/// Returns all batches from the loader's position to the end of epoch 2.
Batches rest_of_three_epochs(DataLoader<Noisy>& loader) {
  Batches batches;
  while (loader.state().epoch < 3)
    for (const Tensor& batch : loader) batches.push_back(batch.to_vector<float>());
  return batches;
}

TEST(LoaderState, CountsTheBatchesThatTheLoopHasHad) {
  auto loader = make_loader(1);
  EXPECT_EQ(loader.state(), at(0, 0));
  std::int64_t batches = 0;
  for ([[maybe_unused]] const Tensor& batch : loader) {
    ++batches;
    EXPECT_EQ(loader.state(), at(0, batches));
  }
  EXPECT_EQ(batches, 5);
  EXPECT_EQ(loader.state(), at(1, 0));
}

TEST(LoaderState, TakenAnywhereResumesWithTheFollowingBatches) {
  auto loader = make_loader(1);
  std::vector<LoaderState> states{loader.state()};
  Batches all;
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const Tensor& batch : loader) {
      all.push_back(batch.to_vector<float>());
      states.push_back(loader.state());
    }
  ASSERT_EQ(all.size(), 15u);
  for (std::size_t had = 0; had < states.size(); ++had) {
    auto resumed = make_loader(99);
    resumed.load_state(states[had]);
    EXPECT_EQ(rest_of_three_epochs(resumed), Batches(all.begin() + std::ptrdiff_t(had), all.end())) << had;
  }
}

TEST(LoaderState, TakenAnywhereResumesWithTheNumbersThatCollationsDraw) {
  const auto make = [](std::uint64_t seed) {
    return DataLoader(Noisy(), {.batch_size = 5, .seed = seed},
                      [](const std::vector<Tensor>&) { return rand({}).item<float>(); });
  };
  auto loader = make(1);
  std::vector<LoaderState> states{loader.state()};
  std::vector<float> all;
  for (const float number : loader) {
    all.push_back(number);
    states.push_back(loader.state());
  }
  for (std::size_t had = 0; had < all.size(); ++had) {
    auto resumed = make(99);
    resumed.load_state(states[had]);
    std::vector<float> rest;
    for (const float number : resumed) rest.push_back(number);
    EXPECT_EQ(rest, std::vector<float>(all.begin() + std::ptrdiff_t(had), all.end())) << had;
  }
}

TEST(LoaderState, OfAnotherEpochGivesCollationsOtherNumbers) {
  DataLoader loader(Noisy(), {.batch_size = 5, .seed = 1},
                    [](const std::vector<Tensor>&) { return rand({}).item<float>(); });
  std::set<float> drawn;
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const float number : loader) drawn.insert(number);
  EXPECT_EQ(drawn.size(), 15u);
}

TEST(LoaderState, OfTheLastBatchLeavesAnEmptyRestOfTheEpoch) {
  auto loader = make_loader(1);
  loader.load_state({.seed = 1, .epoch = 4, .batch = 5});
  EXPECT_TRUE(loader.begin() == loader.end());
  EXPECT_EQ(loader.state(), at(5, 0));
}

// A view such as std::views::take trusts size() if the range has one.
static_assert(std::ranges::input_range<DataLoader<Noisy>> && !std::ranges::sized_range<DataLoader<Noisy>>);

TEST(LoaderState, OfAnEpochBegunMakesTheRangeAsLongAsTheRest) {
  auto loader = make_loader(1);
  loader.load_state(at(0, 3));
  EXPECT_EQ(std::ranges::distance(loader), 2);
}

TEST(LoaderState, AfterALoopLeftEarlyTheNextLoopIsTheNextEpochUnlessLoaded) {
  auto loader = make_loader(1);
  for ([[maybe_unused]] const Tensor& batch : loader) break;
  EXPECT_EQ(loader.state(), at(0, 1));
  {
    auto it = loader.begin();
    EXPECT_EQ(loader.state(), at(1, 1));
  }
  loader.load_state(loader.state());
  auto it = loader.begin();
  EXPECT_EQ(loader.state(), at(1, 2));
}

TEST(LoaderState, AfterAnErrorResumesWithTheBatchThatFailed) {
  bool broken = true;
  DataLoader loader(Noisy(), {.batch_size = 5, .seed = 1}, [&](const std::vector<Tensor>& samples) {
    if (broken) throw std::runtime_error("broken");
    return samples.size();
  });
  loader.load_state({.seed = 1, .epoch = 0, .batch = 2});
  EXPECT_THROW(loader.begin(), std::runtime_error);
  EXPECT_EQ(loader.state(), at(0, 2));
  broken = false;
  loader.load_state(loader.state());
  std::size_t batches = 0;
  for ([[maybe_unused]] const std::size_t batch : loader) ++batches;
  EXPECT_EQ(batches, 3u);
}

TEST(LoaderState, OfAnotherLoopIsNotMovedByAnOldIterator) {
  auto loader = make_loader(1);
  auto old = loader.begin();
  auto current = loader.begin();
  ++old;
  ++old;
  EXPECT_EQ(loader.state(), at(1, 1));
  loader.load_state({1, 1, 0});  // the same epoch once more
  auto again = loader.begin();
  for (int i = 0; i < 4; ++i) ++current;
  EXPECT_EQ(loader.state(), at(1, 1));
  ++again;
  EXPECT_EQ(loader.state(), at(1, 2));
}

TEST(LoaderState, IsRefusedWhereItDoesNotFitAndChangesNothing) {
  auto loader = make_loader(1);
  EXPECT_THROW(loader.load_state({.seed = 5, .epoch = -1}), InvalidArgument);
  EXPECT_THROW(loader.load_state({.seed = 5, .batch = 6}), InvalidArgument);
  EXPECT_THROW(loader.load_state({.seed = 5, .batch = -1}), InvalidArgument);
  EXPECT_EQ(thrown<InvalidArgument>([&] { loader.load_state({.seed = 5, .batch = 2, .batch_size = 4}); }),
            "[DataLoader] expected a state saved with batch_size 5, got one saved with 4");
  EXPECT_EQ(loader.state(), at(0, 0));
}

TEST(LoaderState, OfAnotherBatchSizeFitsBetweenEpochs) {
  auto loader = make_loader(1);
  loader.load_state({.seed = 1, .epoch = 3, .batch = 0, .batch_size = 4});
  EXPECT_EQ(loader.state(), at(3, 0));
}

}  // namespace
}  // namespace lockstep::data
