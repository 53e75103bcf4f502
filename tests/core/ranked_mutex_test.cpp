#include "core/ranked_mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <thread>

namespace lockstep {
namespace {

RankedMutex<LockRank::registry> registry;
RankedMutex<LockRank::allocator> allocator;

TEST(RankedMutex, IsTakenInTheWrittenOrder) {
  for (int round = 0; round < 2; ++round) {
    const std::scoped_lock first(registry);
    const std::scoped_lock second(allocator);
  }
  const std::scoped_lock alone(allocator);
  std::thread([] { const std::scoped_lock first(registry); }).join();  // each thread has its own order
}

TEST(RankedMutex, MayBeTriedInAnyOrder) {
  const std::scoped_lock second(allocator);
  EXPECT_TRUE(registry.try_lock());
  registry.unlock();
}

TEST(RankedMutex, IsHeldAgainAfterAWait) {
  RankedCondition changed;
  bool ready = false;
  std::thread other([&] {
    const std::scoped_lock lock(registry);
    ready = true;
    changed.notify_one();
  });
  {
    std::unique_lock lock(registry);
    changed.wait(lock, [&] { return ready; });
    EXPECT_TRUE(lock.owns_lock());
    const std::scoped_lock later(allocator);
  }
  other.join();
}

TEST(RankedMutex, IsNoLargerThanItsNativeMutex) {
  EXPECT_EQ(sizeof(RankedMutex<LockRank::registry>), sizeof(std::mutex));
}

TEST(LockRank, HasANameForEach) {
  EXPECT_EQ(name_of(LockRank::loader_threads), std::string("loader_threads"));
  EXPECT_EQ(name_of(LockRank::device_threads), std::string("device_threads"));
  EXPECT_EQ(name_of(LockRank::sim_backend), std::string("sim_backend"));
  EXPECT_EQ(name_of(LockRank::thread_limit), std::string("thread_limit"));
}

class RankedMutexDeath : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kChecksLocks) GTEST_SKIP() << "this build does not check the order";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(RankedMutexDeath, EndsTheProcessOutOfOrder) {
  EXPECT_DEATH(
      {
        const std::scoped_lock second(allocator);
        const std::scoped_lock first(registry);
      },
      "lock 'registry' was taken while 'allocator' is held, but core/lock_rank.h orders 'registry' before 'allocator'");
}

TEST_F(RankedMutexDeath, EndsTheProcessWhereTwoHaveOneRank) {
  EXPECT_DEATH(
      {
        RankedMutex<LockRank::allocator> other;
        const std::scoped_lock first(allocator);
        const std::scoped_lock second(other);
      },
      "lock 'allocator' was taken while another 'allocator' is held");
}

TEST_F(RankedMutexDeath, EndsTheProcessWhereSomethingWaitsUnderALock) {
  EXPECT_DEATH(
      {
        const std::scoped_lock lock(registry);
        expect_no_lock("a wait");
      },
      "a wait was called while lock 'registry' is held");
}

}  // namespace
}  // namespace lockstep
