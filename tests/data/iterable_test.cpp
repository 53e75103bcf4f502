// DataLoader over datasets without a size: streams with next(), and ranges.
#include <lockstep/data/loader.h>

#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/data/datasets.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"

namespace lockstep::data {
namespace {

using Whole = std::vector<std::vector<std::int64_t>>;
using testing::thrown;

template <class Loader>
Whole epoch_in(Loader& loader) {
  Whole batches;
  for (const Tensor& batch : loader) batches.push_back(batch.template to_vector<std::int64_t>());
  return batches;
}

/// 0 .. count - 1, in the first epoch only.
struct Once {
  std::int64_t count, at = 0;
  std::optional<std::int64_t> next() { return at < count ? std::optional(at++) : std::nullopt; }
};

/// 0 .. count - 1, in each epoch.
struct Anew : Once {
  void reset() { at = 0; }
};

static_assert(IterableDataset<Once> && IterableDataset<Anew> && IterableDataset<std::vector<std::int64_t>>);
static_assert(!kRestartable<Once> && kRestartable<Anew> && kRestartable<std::vector<std::int64_t>>);

TEST(IterableLoader, BatchesAStreamToItsEndWithAnyNumberOfWorkers) {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(Anew{7}, {.batch_size = 3, .num_workers = workers});
    EXPECT_EQ(epoch_in(loader), (Whole{{0, 1, 2}, {3, 4, 5}, {6}})) << workers;
    EXPECT_EQ(epoch_in(loader), (Whole{{0, 1, 2}, {3, 4, 5}, {6}})) << workers;
    DataLoader whole(Anew{7}, {.batch_size = 3, .num_workers = workers, .drop_last = true});
    EXPECT_EQ(epoch_in(whole), (Whole{{0, 1, 2}, {3, 4, 5}})) << workers;
    DataLoader even(Anew{6}, {.batch_size = 3, .num_workers = workers});
    EXPECT_EQ(epoch_in(even), (Whole{{0, 1, 2}, {3, 4, 5}})) << workers;
    DataLoader none(Anew{0}, {.batch_size = 3, .num_workers = workers});
    EXPECT_EQ(epoch_in(none), Whole()) << workers;
  }
}

TEST(IterableLoader, GoesOnWithAStreamThatDoesNotBeginAnew) {
  DataLoader loader(Once{5}, {.batch_size = 2});
  std::int64_t first = -1;
  for (const Tensor& batch : loader) {
    first = batch[0].item<std::int64_t>();
    break;
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(epoch_in(loader), (Whole{{2, 3}, {4}}));
  EXPECT_EQ(epoch_in(loader), Whole());
}

TEST(IterableLoader, TakesAnyRange) {
  DataLoader list(std::vector<std::int64_t>{5, 6, 7}, {.batch_size = 2});
  EXPECT_EQ(epoch_in(list), (Whole{{5, 6}, {7}}));
  DataLoader pairs(std::vector<std::tuple<Tensor, std::int64_t>>{{zeros({2}), 4}, {ones({2}), 5}}, {.batch_size = 2});
  for (const auto& [input, target] : pairs) {
    EXPECT_EQ(input.sizes(), (Shape{2, 2}));
    EXPECT_EQ(target.to_vector<std::int64_t>(), (std::vector<std::int64_t>{4, 5}));
  }
}

TEST(IterableLoader, LetsLoopsShareWhatCanBeReadTwice) {
  DataLoader loader(std::vector<std::int64_t>{5, 6, 7}, {.num_workers = 1});
  auto one = loader.begin(), other = loader.begin();
  ++one;
  EXPECT_EQ((*one)[0].item<std::int64_t>(), 6);
  EXPECT_EQ((*other)[0].item<std::int64_t>(), 5);
}

TEST(IterableLoader, RefusesASecondLoopOverAStream) {
  DataLoader loader(Anew{7}, {.num_workers = 2});
  const auto loop = loader.begin();
  EXPECT_NE(thrown<InvalidArgument>([&] { loader.begin(); }).find("[DataLoader] expected one loop at a time"),
            std::string::npos);
}

/// Random samples, drawn when they are read.
struct Drawn {
  std::int64_t at = 0;
  std::optional<Tensor> next() { return at++ < 10 ? std::optional(rand({2})) : std::nullopt; }
  void reset() { at = 0; }
};

template <class Loader>
std::vector<std::vector<float>> drawn_in(Loader& loader) {
  std::vector<std::vector<float>> batches;
  for (const Tensor& batch : loader) batches.push_back(batch.template to_vector<float>());
  return batches;
}

TEST(IterableLoader, ResumesFromAStateWithTheFollowingBatches) {
  DataLoader loader(Drawn(), {.batch_size = 3, .seed = 4});
  drawn_in(loader);
  const std::vector<LoaderState> before = {loader.state()};
  auto it = loader.begin();
  ++it;
  const LoaderState middle = loader.state();
  EXPECT_EQ(middle, (LoaderState{.seed = 4, .epoch = 1, .batch = 2, .batch_size = 3}));
  std::vector<std::vector<float>> rest;
  for (++it; it != loader.end(); ++it) rest.push_back(it->to_vector<float>());
  ASSERT_EQ(rest.size(), 2u);
  for (const int workers : {0, 2}) {
    DataLoader resumed(Drawn(), {.batch_size = 3, .seed = 9, .num_workers = workers});
    resumed.load_state(middle);
    EXPECT_EQ(drawn_in(resumed), rest) << workers;
    EXPECT_EQ(resumed.state().epoch, 2);
  }
}

TEST(IterableLoader, RefusesTheStateOfWhatDoesNotBeginAnew) {
  DataLoader loader(Once{5});
  const std::string expected =
      "[DataLoader] state() and load_state() need a dataset that can start over: give it reset(), or begin() and end()";
  EXPECT_EQ(thrown<InvalidArgument>([&] { loader.state(); }), expected);
  EXPECT_EQ(thrown<InvalidArgument>([&] { loader.load_state({}); }), expected);
}

TEST(IterableLoader, RefusesToShuffle) {
  EXPECT_EQ(thrown<InvalidArgument>([] { DataLoader(Once{5}, {.shuffle = true}); }),
            "[DataLoader] expected shuffle only for a dataset with a size, got a dataset without a size");
}

struct BreaksAtFour : Anew {
  std::optional<std::int64_t> next() {
    if (at == 4) throw InvalidArgument("broken");
    return Anew::next();
  }
};

TEST(IterableLoader, HandsOnTheErrorOfASampleInItsBatch) {
  for (const int workers : {0, 3}) {
    DataLoader loader(BreaksAtFour{{{9}}}, {.batch_size = 2, .num_workers = workers});
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto it = loader.begin();
      ++it;
      EXPECT_EQ(thrown<InvalidArgument>([&] { ++it; }), "broken (in sample 4)");
      EXPECT_TRUE(it == loader.end());
    }
  }
}

// Joined, the processes' rows are those of a single process.
TEST(IterableLoader, GivesEachProcessItsRows) {
  for (const std::int64_t count : {7, 9}) {
    Whole of_process[2];
    for (int process = 0; process < 2; ++process) {
      DataLoader loader(Anew{count}, {.batch_size = 4, .seed = 1, .share = {.process = process, .processes = 2}});
      std::int64_t left = count, batches = 0;
      for (const Tensor& batch : loader) {
        of_process[process].push_back(batch.to_vector<std::int64_t>());
        EXPECT_EQ(loader.rows_in(batches++), std::min<std::int64_t>(left, 4));
        left -= 4;
      }
    }
    ASSERT_EQ(of_process[0].size(), of_process[1].size());
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < of_process[0].size(); ++i)
      for (const auto& part : of_process) all.insert(all.end(), part[i].begin(), part[i].end());
    std::vector<std::int64_t> expected;
    for (std::int64_t i = 0; i < count; ++i) expected.push_back(i);
    EXPECT_EQ(all, expected);
  }
}

TEST(MapDataset, ChangesTheSamplesOfAStream) {
  const auto twice = [](std::int64_t x) { return 2 * x; };
  DataLoader stream(MapDataset(Anew{3}, twice), {.batch_size = 2, .num_workers = 1});
  EXPECT_EQ(epoch_in(stream), (Whole{{0, 2}, {4}}));
  EXPECT_EQ(epoch_in(stream), (Whole{{0, 2}, {4}}));
  DataLoader range(MapDataset(std::vector<std::int64_t>{5, 6}, twice), {.batch_size = 2});
  EXPECT_EQ(epoch_in(range), (Whole{{10, 12}}));
  EXPECT_EQ(epoch_in(range), (Whole{{10, 12}}));
  static_assert(!kRestartable<decltype(MapDataset(Once{3}, twice))>);
}

}  // namespace
}  // namespace lockstep::data
