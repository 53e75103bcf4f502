#include <lockstep/data/loader.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <string>

#include <lockstep/data/tensor_dataset.h>
#include <lockstep/tensor/creation.h>

namespace lockstep::data::loader_test {
namespace {

using Batches = std::vector<std::vector<std::int64_t>>;

// The i-th sample is i.
struct Numbers {
  std::int64_t length;
  std::int64_t size() const { return length; }
  std::int64_t get(std::int64_t index) const { return index; }
};

class RandomDataset {
 public:
  RandomDataset(std::int64_t features, std::int64_t length) : data_(randn({length, features})) {}
  Tensor get(std::int64_t index) const { return data_[index]; }
  std::int64_t size() const { return data_.size(0); }

 private:
  Tensor data_;
};

template <class Loader>
Batches epoch_of(Loader&& loader) {
  Batches batches;
  for (const Tensor& batch : loader) batches.push_back(batch.to_vector<std::int64_t>());
  return batches;
}

std::vector<std::int64_t> joined(const Batches& batches) {
  std::vector<std::int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<std::int64_t> counting(std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

static_assert(std::ranges::input_range<DataLoader<Numbers>>);
static_assert(std::same_as<DataLoader<Numbers>::Batch, Tensor>);
static_assert(std::same_as<DataLoader<TensorDataset<2>>::Batch, std::tuple<Tensor, Tensor>>);

TEST(DataLoader, CutsTheDatasetIntoBatches) {
  DataLoader loader(RandomDataset(5, 100), {.batch_size = 30, .shuffle = true});
  EXPECT_EQ(loader.size(), 4);
  std::vector<Shape> shapes;
  for (const Tensor& data : loader) shapes.push_back(data.sizes());
  EXPECT_EQ(shapes, (std::vector<Shape>{{30, 5}, {30, 5}, {30, 5}, {10, 5}}));
}

TEST(DataLoader, DropsALastBatchThatIsNotFullWhenAsked) {
  DataLoader loader(Numbers{100}, {.batch_size = 30, .drop_last = true});
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(joined(epoch_of(loader)), counting(90));
  DataLoader even(Numbers{90}, {.batch_size = 30, .drop_last = true});
  EXPECT_EQ(even.size(), 3);
}

TEST(DataLoader, GoesInSequenceOneByOneUnlessTold) {
  DataLoader loader(Numbers{3});
  EXPECT_EQ(epoch_of(loader), (Batches{{0}, {1}, {2}}));
  EXPECT_EQ(epoch_of(loader), (Batches{{0}, {1}, {2}}));
}

TEST(DataLoader, MakesOneBatchOfADatasetSmallerThanIt) {
  DataLoader loader(Numbers{3}, {.batch_size = 10});
  EXPECT_EQ(epoch_of(loader), (Batches{{0, 1, 2}}));
  DataLoader dropping(Numbers{3}, {.batch_size = 10, .drop_last = true});
  EXPECT_EQ(dropping.size(), 0);
  EXPECT_TRUE(epoch_of(dropping).empty());
}

TEST(DataLoader, MakesNoBatchOfAnEmptyDataset) {
  DataLoader loader(Numbers{0}, {.batch_size = 4, .shuffle = true});
  EXPECT_EQ(loader.size(), 0);
  EXPECT_TRUE(epoch_of(loader).empty());
}

TEST(DataLoader, ShufflesIntoAPermutationNewInEachEpoch) {
  DataLoader loader(Numbers{100}, {.batch_size = 30, .shuffle = true, .seed = 1});
  const auto first = joined(epoch_of(loader));
  const auto second = joined(epoch_of(loader));
  EXPECT_NE(first, counting(100));
  EXPECT_NE(first, second);
  EXPECT_EQ(sorted(first), counting(100));
  EXPECT_EQ(sorted(second), counting(100));
}

TEST(DataLoader, ShufflesAlikeForEqualSeeds) {
  DataLoader a(Numbers{100}, {.batch_size = 30, .shuffle = true, .seed = 1});
  DataLoader b(Numbers{100}, {.batch_size = 30, .shuffle = true, .seed = 1});
  DataLoader c(Numbers{100}, {.batch_size = 30, .shuffle = true, .seed = 2});
  const auto first = epoch_of(a);
  EXPECT_EQ(first, epoch_of(b));
  EXPECT_EQ(epoch_of(a), epoch_of(b));
  EXPECT_NE(first, epoch_of(c));
}

TEST(DataLoader, DrawsItsSeedFromTheProcessSequence) {
  const auto first_epoch = [] {
    DataLoader loader(Numbers{100}, {.batch_size = 100, .shuffle = true});
    return epoch_of(loader);
  };
  manual_seed(5);
  const auto first = first_epoch();
  const auto second = first_epoch();
  manual_seed(5);
  EXPECT_EQ(first, first_epoch());
  EXPECT_NE(first, second);
}

TEST(DataLoader, TakesSamplesInTheOrderOfASampler) {
  DataLoader loader(Numbers{10}, WeightedRandomSampler({0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, 5), {.batch_size = 2});
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(epoch_of(loader), (Batches{{3, 3}, {3, 3}, {3}}));
}

struct ListSampler {
  std::vector<std::int64_t> list;
  std::int64_t size() const { return std::int64_t(list.size()); }
  std::vector<std::int64_t> indices(std::int64_t) const { return list; }
};

TEST(DataLoader, ReadsAFewSamplesOfADatasetOfAnySize) {
  const std::int64_t size = std::int64_t(1) << 60;
  DataLoader loader(Numbers{size}, ListSampler{{size - 1, 0, 5, size - 1}}, {.batch_size = 3});
  EXPECT_EQ(epoch_of(loader), (Batches{{size - 1, 0, 5}, {size - 1}}));
  for (const std::int64_t outside : {size, std::int64_t(-1)})
    EXPECT_THROW(DataLoader(Numbers{size}, ListSampler{{0, outside}}).begin(), InvalidArgument) << outside;
}

TEST(DataLoader, GivesEachEpochToTheSampler) {
  const RandomSampler sampler(10, {.seed = 7});
  DataLoader loader(Numbers{10}, sampler, {.batch_size = 4});
  EXPECT_EQ(joined(epoch_of(loader)), sampler.indices(0));
  EXPECT_EQ(joined(epoch_of(loader)), sampler.indices(1));
}

TEST(DataLoader, GivesATupleForEachBatchOfATensorDataset) {
  DataLoader loader(TensorDataset(tensor({{1, 2}, {3, 4}, {5, 6}}), tensor({7, 8, 9})), {.batch_size = 2});
  Batches inputs, targets;
  for (auto [input, target] : loader) {
    inputs.push_back(input.to_vector<std::int64_t>());
    targets.push_back(target.to_vector<std::int64_t>());
  }
  EXPECT_EQ(inputs, (Batches{{1, 2, 3, 4}, {5, 6}}));
  EXPECT_EQ(targets, (Batches{{7, 8}, {9}}));
}

TEST(DataLoader, CollatesAsAFunctionSays) {
  DataLoader loader(Numbers{5}, {.batch_size = 2}, [](std::vector<std::int64_t> samples) {
    return std::accumulate(samples.begin(), samples.end(), std::int64_t(0));
  });
  std::vector<std::int64_t> sums;
  for (const std::int64_t sum : loader) sums.push_back(sum);
  EXPECT_EQ(sums, (std::vector<std::int64_t>{1, 5, 4}));
}

TEST(DataLoader, TellsACollateFunctionTheIndicesIfItWantsThem) {
  DataLoader loader(TensorDataset(zeros({5, 2})), SequentialSampler(5), {.batch_size = 3},
                    [](const std::vector<Tensor>& rows, SampleIndices indices) {
                      return std::pair(rows.size(), std::vector<std::int64_t>(indices.begin(), indices.end()));
                    });
  auto it = loader.begin();
  ++it;
  EXPECT_EQ(it->first, 2u);
  EXPECT_EQ(it->second, (std::vector<std::int64_t>{3, 4}));
}

TEST(DataLoader, LetsTheLoopChangeTheBatchAtHand) {
  DataLoader loader(Numbers{2}, {.batch_size = 2});
  for (Tensor& batch : loader) {
    batch = batch.to(kFloat32);
    EXPECT_EQ(batch.dtype(), kFloat32);
  }
}

TEST(DataLoader, MayBeMovedWhileALoopRuns) {
  DataLoader loader(Numbers{4}, {.batch_size = 2});
  auto it = loader.begin();
  DataLoader moved(std::move(loader));
  ++it;
  EXPECT_EQ(it->to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(moved.state().batch, 2);
}

struct Noise {
  std::int64_t size() const { return 6; }
  Tensor get(std::int64_t) const { return rand({2}); }
};

template <class Loader>
std::vector<float> noise_of(Loader&& loader) {
  std::vector<float> all;
  for (const Tensor& batch : loader)
    for (const float value : batch.template to_vector<float>()) all.push_back(value);
  return all;
}

TEST(DataLoaderRandom, NumbersOfASampleFollowFromSeedEpochAndIndexAlone) {
  DataLoader by_one(Noise(), {.batch_size = 1, .seed = 3});
  DataLoader by_four(Noise(), {.batch_size = 4, .seed = 3});
  manual_seed(1);
  const auto first = noise_of(by_one);
  manual_seed(2);
  EXPECT_EQ(first, noise_of(by_four));
  const auto second = noise_of(by_one);
  EXPECT_NE(first, second);
  EXPECT_EQ(second, noise_of(by_four));
  EXPECT_NE(first, noise_of(DataLoader(Noise(), {.seed = 4})));
}

TEST(DataLoaderRandom, NumbersAreTheSameInWhicheverProcessASampleIsRead) {
  const auto whole = noise_of(DataLoader(Noise(), {.seed = 3}));
  for (int rank = 0; rank < 2; ++rank) {
    const auto share =
        noise_of(DataLoader(Noise(), DistributedSampler(6, {.rank = rank, .world = 2, .shuffle = false}), {.seed = 3}));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(share[2 * i], whole[2 * (2 * i + std::size_t(rank))]);
  }
}

TEST(DataLoaderRandom, ASampleDrawnTwiceInAnEpochGetsOtherNumbers) {
  auto values =
      noise_of(DataLoader(Noise(), WeightedRandomSampler({1, 0, 0, 0, 0, 0}, 100), {.batch_size = 10, .seed = 3}));
  std::sort(values.begin(), values.end());
  EXPECT_EQ(std::unique(values.begin(), values.end()), values.end());
}

struct NoiseOf {
  std::int64_t length;
  std::int64_t size() const { return length; }
  Tensor get(std::int64_t) const { return rand({2}); }
};

TEST(DataLoaderRandom, NumbersDoNotDependOnTheSizeOfTheDataset) {
  const ListSampler sampler{{3, 7, 3, 0, 3, 7}};
  const auto expected = noise_of(DataLoader(NoiseOf{8}, sampler, {.batch_size = 4, .seed = 3}));
  for (const std::int64_t size : {std::int64_t(1000), std::int64_t(1) << 60})
    EXPECT_EQ(noise_of(DataLoader(NoiseOf{size}, sampler, {.batch_size = 4, .seed = 3})), expected) << size;
}

TEST(DataLoaderRandom, TheLoopsOwnNumbersAreNotTouched) {
  manual_seed(8);
  const auto expected = rand({4}).to_vector<float>();
  DataLoader loader(Noise(), {.seed = 3});
  manual_seed(8);
  noise_of(loader);
  EXPECT_EQ(rand({4}).to_vector<float>(), expected);
}

TEST(BatchSource, MakesNoMoreSamplesOnceAStopIsRequested) {
  std::stop_source stop;
  struct Stopping {
    std::stop_source* source;
    std::vector<std::int64_t>* made;
    std::int64_t size() const { return 10; }
    std::int64_t get(std::int64_t index) const {
      made->push_back(index);
      if (index == 2) source->request_stop();
      return index;
    }
  };
  std::vector<std::int64_t> made;
  const BatchSource source(Stopping{&stop, &made}, DefaultCollate());
  const EpochPlan plan({.batches = 1, .batch_size = 10}, counting(10), 10);
  EXPECT_FALSE(source.make(plan, 0, {.stop = stop.get_token()}));
  EXPECT_EQ(made, counting(3));
}

// A lambda with captures can be moved but not assigned.
template <class Function>
struct Mapped {
  Function function;
  std::int64_t length;
  std::int64_t size() const { return length; }
  auto get(std::int64_t index) const { return function(index); }
};

TEST(DataLoader, TakesADatasetThatHoldsACapturingLambda) {
  std::int64_t factor = 3;
  const auto times = [factor](std::int64_t index) { return factor * index; };
  DataLoader loader(Mapped<decltype(times)>{times, 4}, {.batch_size = 2, .num_workers = 1});
  EXPECT_EQ(epoch_of(loader), (Batches{{0, 3}, {6, 9}}));
}

TEST(DataLoader, RefusesToReadPastTheEnd) {
  DataLoader loader(Numbers{2}, {.batch_size = 2});
  auto it = loader.begin();
  EXPECT_EQ(it->numel(), 2);
  ++it;
  EXPECT_TRUE(it == loader.end());
  EXPECT_THROW(*it, InvalidArgument);
  EXPECT_THROW(it->numel(), InvalidArgument);
  DataLoader none(Numbers{0}, {});
  EXPECT_THROW(*none.begin(), InvalidArgument);
}

TEST(DataLoader, RefusesAnEpochThatCannotBeCountedOn) {
  constexpr std::int64_t kLast = std::int64_t(1) << 62;
  DataLoader loader(Numbers{2}, {.shuffle = true, .seed = 1});
  loader.load_state({.seed = 1, .epoch = kLast});
  EXPECT_EQ(epoch_of(loader).size(), 2u);
  EXPECT_EQ(loader.state().epoch, kLast + 1);
  EXPECT_THROW(loader.load_state({.seed = 1, .epoch = kLast + 1}), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::data::loader_test
