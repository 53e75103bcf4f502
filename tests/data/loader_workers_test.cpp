// DataLoader with workers. Nothing here measures time; waits have a limit only so that a failure does not hang.
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

namespace lockstep::data {
namespace {

using Batches = std::vector<std::vector<float>>;

template <class Loader>
Batches epoch_of(Loader& loader) {
  Batches batches;
  for (const Tensor& batch : loader) batches.push_back(batch.template to_vector<float>());
  return batches;
}

/// Blocks until `count` threads have arrived; false if that takes far too long.
class Meeting {
 public:
  explicit Meeting(int count) : missing_(count) {}
  bool arrive() {
    std::unique_lock lock(mutex_);
    if (--missing_ <= 0) all_here_.notify_all();
    return all_here_.wait_for(lock, std::chrono::seconds(20), [this] { return missing_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int missing_;
};

struct NoisyImages {
  std::int64_t size() const { return 103; }
  Tensor get(std::int64_t index) const { return rand({3}).add_(tensor(double(index))); }
};

TEST(DataLoaderWorkers, AnyNumberMakesTheSameBatches) {
  for (const std::int64_t prefetch : {1, 3}) {
    DataLoader alone(NoisyImages(), {.batch_size = 7, .shuffle = true, .seed = 5, .prefetch_factor = prefetch});
    const Batches first = epoch_of(alone);
    const Batches second = epoch_of(alone);
    ASSERT_EQ(first.size(), 15u);
    for (const int workers : {1, 2, 4, 40}) {
      DataLoader loader(NoisyImages(),
                        {.batch_size = 7, .shuffle = true, .seed = 5, .num_workers = workers, .prefetch_factor = prefetch});
      EXPECT_EQ(epoch_of(loader), first) << workers;
      EXPECT_EQ(epoch_of(loader), second) << workers;
    }
  }
}

TEST(DataLoaderWorkers, ReadATensorDataset) {
  DataLoader loader(TensorDataset(arange(10), arange(10, 20)), {.batch_size = 4, .num_workers = 2});
  std::vector<std::int64_t> sums;
  for (auto [input, target] : loader) sums.push_back(input.size(0) + target.size(0));
  EXPECT_EQ(sums, (std::vector<std::int64_t>{8, 8, 4}));
}

TEST(DataLoaderWorkers, HaveNothingToDoForAnEmptyDataset) {
  DataLoader loader(TensorDataset(zeros({0, 2})), {.num_workers = 3});
  EXPECT_TRUE(loader.begin() == loader.end());
}

struct Slow {  // a sample is ready when three of them are being made
  std::shared_ptr<Meeting> meeting = std::make_shared<Meeting>(3);
  std::int64_t size() const { return 3; }
  bool get(std::int64_t) const { return meeting->arrive(); }
};

TEST(DataLoaderWorkers, MakeSeveralBatchesAtOnce) {
  DataLoader loader(Slow(), {.num_workers = 3, .prefetch_factor = 1});
  for (const Tensor& met : loader) EXPECT_TRUE(met.to(kInt64)[0].item<bool>());
}

struct Awaited {  // the first sample after the batch at hand says when it is being made
  std::shared_ptr<Meeting> meeting = std::make_shared<Meeting>(2);
  std::int64_t size() const { return 2; }
  bool get(std::int64_t index) const { return index == 0 || meeting->arrive(); }
};

TEST(DataLoaderWorkers, MakeTheNextBatchWhileTheLoopRuns) {
  DataLoader loader(Awaited(), {.num_workers = 1, .prefetch_factor = 1});
  auto it = loader.begin();
  EXPECT_TRUE(loader.dataset().meeting->arrive());
  ++it;
  EXPECT_TRUE(it->to(kInt64)[0].item<bool>());
}

struct Counters {
  std::atomic<int> begun = 0;
  std::atomic<int> running = 0;
  std::atomic<int> most_running = 0;
};

struct CountedReads {
  std::shared_ptr<Counters> counters = std::make_shared<Counters>();
  std::int64_t length = 50;
  std::int64_t failing = -1;

  std::int64_t size() const { return length; }
  float get(std::int64_t index) const {
    ++counters->begun;
    const int running = ++counters->running;
    int most = counters->most_running;
    while (running > most && !counters->most_running.compare_exchange_weak(most, running)) {
    }
    std::this_thread::yield();
    --counters->running;
    if (index == failing) throw InvalidArgument("broken");
    return float(index);
  }
};

TEST(DataLoaderWorkers, AreNoMoreThanAsked) {
  DataLoader loader(CountedReads{.length = 400}, {.batch_size = 2, .num_workers = 2, .prefetch_factor = 8});
  epoch_of(loader);
  EXPECT_EQ(loader.dataset().counters->begun, 400);
  EXPECT_LE(loader.dataset().counters->most_running, 2);
}

TEST(DataLoaderWorkers, StayWithinThePrefetchedBatches) {
  DataLoader loader(CountedReads{}, {.num_workers = 2, .prefetch_factor = 3});
  const Counters& counters = *loader.dataset().counters;
  int taken = 0;
  for ([[maybe_unused]] const Tensor& batch : loader) {
    ++taken;
    for (int i = 0; i < 50; ++i) std::this_thread::yield();
    EXPECT_LE(counters.begun, taken + 6);
  }
  EXPECT_EQ(counters.begun, 50);
}

TEST(DataLoaderWorkers, FillThePrefetchedBatchesWithoutBeingAsked) {
  DataLoader loader(CountedReads{}, {.num_workers = 2, .prefetch_factor = 3});
  const auto it = loader.begin();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (loader.dataset().counters->begun < 7 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(loader.dataset().counters->begun, 7);
}

TEST(DataLoaderWorkers, DoNotRunOnWhenALoopIsLeftEarly) {
  DataLoader loader(CountedReads{.length = 200}, {.batch_size = 3, .shuffle = true, .num_workers = 3});
  const Counters& counters = *loader.dataset().counters;
  for (int round = 0; round < 200; ++round) {
    int batches = 0;
    for ([[maybe_unused]] const Tensor& batch : loader)
      if (++batches > round % 4) break;
    EXPECT_EQ(counters.running, 0);
    const int begun = counters.begun;
    std::this_thread::yield();
    EXPECT_EQ(counters.begun, begun);
  }
}

TEST(DataLoaderWorkers, DoNotRunOnWhenALoopThrows) {
  DataLoader loader(CountedReads{.length = 200}, {.batch_size = 3, .num_workers = 3});
  const Counters& counters = *loader.dataset().counters;
  const auto loop = [&] {
    for ([[maybe_unused]] const Tensor& batch : loader) throw std::runtime_error("the loop's own");
  };
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(loop(), std::runtime_error);
    EXPECT_EQ(counters.running, 0);
  }
}

TEST(DataLoaderWorkers, HandOnTheErrorOfASample) {
  for (const int workers : {0, 3}) {
    DataLoader loader(CountedReads{.failing = 17}, {.batch_size = 5, .num_workers = workers});
    for (int epoch = 0; epoch < 3; ++epoch) {
      auto it = loader.begin();
      ++it;
      ++it;
      try {
        ++it;
        FAIL();
      } catch (const InvalidArgument& error) {
        EXPECT_EQ(std::string(error.what()), "broken (in sample 17)");
      }
      EXPECT_TRUE(it == loader.end());
      EXPECT_EQ(loader.dataset().counters->running, 0);
      EXPECT_EQ(loader.state().batch, 3);
    }
  }
}

struct AllBroken {
  std::int64_t size() const { return 100; }
  float get(std::int64_t index) const { throw std::out_of_range("broken at " + std::to_string(index)); }
};

TEST(DataLoaderWorkers, HandOnTheFirstErrorInOrder) {
  DataLoader loader(AllBroken(), {.batch_size = 2, .num_workers = 4});
  for (int round = 0; round < 50; ++round) {
    try {
      loader.begin();
      FAIL();
    } catch (const std::out_of_range& error) {
      EXPECT_EQ(std::string(error.what()), "broken at 0 (in sample 0)");
    }
  }
}

TEST(DataLoaderWorkers, ResumeInTheMiddleOfAnEpoch) {
  DataLoader whole(NoisyImages(), {.batch_size = 7, .shuffle = true, .seed = 5});
  const Batches all = epoch_of(whole);
  DataLoader loader(NoisyImages(), {.batch_size = 7, .shuffle = true, .num_workers = 3});
  loader.load_state({.seed = 5, .epoch = 0, .batch = 9});
  EXPECT_EQ(epoch_of(loader), Batches(all.begin() + 9, all.end()));
}

struct Nested {  // its samples are themselves loaded with workers
  std::int64_t size() const { return 12; }
  Tensor get(std::int64_t index) const {
    DataLoader inner(TensorDataset(arange(8)), {.batch_size = 2, .num_workers = 2});
    std::int64_t sum = index;
    for (const Tensor& batch : inner) sum += batch[0].item<std::int64_t>();
    return tensor(sum);
  }
};

std::vector<std::int64_t> of_nested_loaders() {
  DataLoader loader(Nested(), {.batch_size = 3, .num_workers = 2});
  std::vector<std::int64_t> all;
  for (const Tensor& batch : loader)
    for (const std::int64_t value : batch.to_vector<std::int64_t>()) all.push_back(value);
  return all;
}

TEST(DataLoaderWorkers, MayThemselvesUseALoaderWithWorkers) {
  const std::vector<std::int64_t> expected = {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
  EXPECT_EQ(of_nested_loaders(), expected);
  const tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);  // as set_num_threads(1)
  EXPECT_EQ(of_nested_loaders(), expected);
}

TEST(DataLoaderWorkers, OfTwoLoadersRunSideBySide) {
  DataLoader a(CountedReads{}, {.batch_size = 5, .num_workers = 2});
  DataLoader b(CountedReads{}, {.batch_size = 5, .num_workers = 3});
  auto it = b.begin();
  for (const Tensor& batch : a) {
    EXPECT_EQ(batch.to_vector<float>(), it->to_vector<float>());
    ++it;
  }
  EXPECT_TRUE(it == b.end());
}

struct Mode {
  std::int64_t size() const { return 4; }
  bool get(std::int64_t) const { return grad_enabled(); }
};

TEST(DataLoaderWorkers, RecordForBackwardAsTheLoopsThreadDoes) {
  DataLoader loader(Mode(), {.batch_size = 4, .num_workers = 2});
  EXPECT_TRUE(loader.begin()->to(kInt64)[0].item<bool>());
  const NoGrad no_grad;
  EXPECT_FALSE(loader.begin()->to(kInt64)[0].item<bool>());
}

// The simulated device would report work on two streams that no event orders.
TEST(DataLoaderWorkers, UseTheStreamsOfTheLoop) {
  const SimulatedDevices devices({.count = 2});
  const TensorDataset<1> dataset(arange(0, 12).to("cuda:1").view({12, 1}));
  synchronize("cuda:1");
  const StreamGuard guard(Stream::from_pool("cuda:1"));
  DataLoader loader(dataset, {.batch_size = 4, .num_workers = 2});
  std::vector<float> all;
  for (const Tensor& batch : loader)
    for (const float value : (batch + 1).to(kFloat32).to_vector<float>()) all.push_back(value);
  EXPECT_EQ(all.size(), 12u);
}

}  // namespace
}  // namespace lockstep::data
