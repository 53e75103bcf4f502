// A loader with a worker that hangs. Time limits on waits only keep a failed test from hanging.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/core/timeout_error.h>
#include <lockstep/data/loader.h>

#include "support/thrown.h"

namespace lockstep::data {
namespace {

using std::chrono::milliseconds;
using testing::thrown;

/// A gate that blocks pass() until open().
class Door {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

/// A dataset whose sample 5 blocks until the door is opened.
struct Hanging {
  std::shared_ptr<Door> door = std::make_shared<Door>();
  std::int64_t size() const { return 12; }
  std::int64_t get(std::int64_t index) const {
    if (index == 5) door->pass();
    return index;
  }
};

std::vector<std::int64_t> the_rest(DataLoader<Hanging>& loader) {
  std::vector<std::int64_t> seen;
  for (const Tensor& batch : loader)
    for (const std::int64_t value : batch.to_vector<std::int64_t>()) seen.push_back(value);
  return seen;
}

TEST(DataLoaderTimeout, NamesTheWorkerThatHangsAndItsSample) {
  Hanging dataset;
  {
    DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2, .timeout = milliseconds(1000)});
    auto it = loader.begin();
    ++it;
    const std::string error = thrown<TimeoutError>([&] { ++it; });
    EXPECT_EQ(error.find("[DataLoader] expected batch 2 within 1000 ms, got none: worker "), 0u) << error;
    EXPECT_NE(error.find(" has been making it for "), error.npos) << error;
    EXPECT_TRUE(error.ends_with(" ms (in sample 5)")) << error;
    EXPECT_TRUE(it == loader.end());
  }  // the loader and its loop are destroyed while the worker still hangs
  EXPECT_GT(dataset.door.use_count(), 1);
  dataset.door->open();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (dataset.door.use_count() > 1 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(dataset.door.use_count(), 1);  // the worker has released its state
}

TEST(DataLoaderTimeout, LeavesALoaderThatGoesOnFromItsState) {
  const Hanging dataset;
  DataLoader loader(dataset, {.batch_size = 2, .num_workers = 1, .timeout = milliseconds(1000)});
  auto it = loader.begin();
  ++it;
  EXPECT_THROW(++it, TimeoutError);
  dataset.door->open();
  loader.load_state(loader.state());
  EXPECT_EQ(the_rest(loader), (std::vector<std::int64_t>{4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(DataLoaderTimeout, IsNotReachedByBatchesThatCome) {
  const Hanging dataset;
  dataset.door->open();
  DataLoader loader(dataset, {.batch_size = 5, .num_workers = 2, .timeout = milliseconds(60000)});
  EXPECT_EQ(the_rest(loader).size(), 12u);
}

/// An iterable dataset, which has no size, and hangs at the fourth sample until the door opens.
struct HangingStream {
  std::shared_ptr<Door> door = std::make_shared<Door>();
  std::int64_t at = 0;
  std::optional<std::int64_t> next() {
    if (at == 3) door->pass();
    return at < 6 ? std::optional(at++) : std::nullopt;
  }
  void reset() { at = 0; }
};

// No other loop may read the stream while the worker hangs in it.
TEST(DataLoaderTimeout, KeepsAStreamThatAWorkerHangsIn) {
  const HangingStream stream;
  DataLoader loader(stream, {.batch_size = 2, .num_workers = 3, .timeout = milliseconds(1000)});
  {
    auto it = loader.begin();
    const std::string error = thrown<TimeoutError>([&] { ++it; });
    EXPECT_TRUE(error.ends_with(" ms (in sample 3)")) << error;
  }
  EXPECT_THROW(loader.begin(), InvalidArgument);
  stream.door->open();
  std::optional<DataLoader<HangingStream>::Iterator> again;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!again && std::chrono::steady_clock::now() < limit) {
    try {
      again.emplace(loader.begin());
    } catch (const InvalidArgument&) {
    }
  }
  ASSERT_TRUE(again);
  EXPECT_EQ((**again).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));
}

TEST(DataLoaderTimeout, NeedsWorkers) {
  EXPECT_EQ(thrown<InvalidArgument>([] { DataLoader(Hanging(), {.timeout = milliseconds(5)}); }),
            "[DataLoader] expected num_workers > 0 with a timeout, which limits the wait for workers, got none");
  EXPECT_THROW(DataLoader(Hanging(), {.num_workers = 1, .timeout = milliseconds(-5)}), InvalidArgument);
}

}  // namespace
}  // namespace lockstep::data
