#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

#include <lockstep/data/prefetcher.h>

#include "data/task_queue.h"

namespace lockstep::data {
namespace {

template <class Condition>
bool comes_true(const Condition& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  return condition();
}

TEST(PrefetcherWorkers, AreToldToStopWhenThePrefetcherGoes) {
  std::atomic<int> waiting = 0;
  std::atomic<int> stopped = 0;
  {
    const Prefetcher prefetcher({.num_workers = 2, .first = 0, .last = 10, .window = 4},
                                [&](std::int64_t, const std::stop_token& stop) {
                                  ++waiting;
                                  stopped += comes_true([&] { return stop.stop_requested(); });
                                });
    EXPECT_TRUE(comes_true([&] { return waiting == 2; }));
  }
  EXPECT_EQ(waiting, 2);
  EXPECT_EQ(stopped, 2);
}

// Even if a worker becomes free because of the stop request.
TEST(PrefetcherWorkers, BeginNothingMoreOnceThePrefetcherGoes) {
  std::atomic<int> begun = 0;
  std::atomic<bool> open = false;
  std::stop_token token;
  std::optional<Prefetcher> prefetcher;
  prefetcher.emplace(PrefetchOptions{.num_workers = 1, .first = 0, .last = 10, .window = 4},
                     [&](std::int64_t batch, const std::stop_token& stop) {
                       if (batch == 0) token = stop;
                       ++begun;
                       comes_true([&] { return open.load(); });
                     });
  EXPECT_TRUE(comes_true([&] { return begun == 1; }));
  const std::stop_callback told(token, [&] {
    open = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  prefetcher.reset();
  EXPECT_EQ(begun, 1);
}

TEST(PrefetcherWorkers, BeginInOrderAndWithinTheRange) {
  std::vector<std::int64_t> begun;
  {
    Prefetcher prefetcher({.num_workers = 1, .first = 3, .last = 20, .window = 5},
                          [&](std::int64_t batch, const std::stop_token&) { begun.push_back(batch); });
    for (int i = 3; i < 20; ++i) {
      prefetcher.wait();
      prefetcher.taken();
    }
  }
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 3; i < 20; ++i) expected.push_back(i);
  EXPECT_EQ(begun, expected);
}

TEST(TaskQueueWorkers, LetGoOfWhatATaskHeldBeforeItCountsAsDone) {
  TaskQueue queue(2);
  for (int round = 0; round < 100; ++round) {
    const auto held = std::make_shared<int>(0);
    queue.submit([held] {});
    queue.wait();
    EXPECT_EQ(held.use_count(), 1);
  }
}

TEST(TaskQueueWorkers, ForgetCancelledTasks) {
  TaskQueue queue(1);
  std::atomic<bool> open = false;
  std::atomic<int> ran = 0;
  queue.submit([&] {
    ++ran;
    comes_true([&] { return open.load(); });
  });
  for (int i = 0; i < 5; ++i) queue.submit([&] { ++ran; });
  EXPECT_TRUE(comes_true([&] { return ran == 1; }));
  queue.cancel();
  open = true;
  queue.wait();
  EXPECT_EQ(ran, 1);
}

TEST(TaskQueueWorkers, GiveTheirThreadsBack) {
  const auto threads = [] { return tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism); };
  const std::size_t before = threads();
  {
    const TaskQueue one(1), two(2);
    EXPECT_EQ(threads(), std::max<std::size_t>(before, std::size_t(tbb::info::default_concurrency())) + 3);
  }
  EXPECT_EQ(threads(), before);
}

}  // namespace
}  // namespace lockstep::data
