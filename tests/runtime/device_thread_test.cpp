#include "runtime/device_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/registry.h"
#include "support/must_end.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using testing::must_end;

// Runs a job on the device's thread and waits for it.
void run_on(DeviceThread& thread, const std::function<void()>& job, const Context& start) {
  std::atomic<bool> ended = false;
  thread.submit(
      [&] {
        job();
        ended = true;
        DeviceThread::notify();
      },
      start);
  DeviceThread::wait_until([&] { return ended.load(); });
}

TEST(DeviceThread, RunsAJobInTheContextThatItIsHanded) {
  const TestDevices devices(1);
  DeviceThread& thread = device_state("cuda:0").thread;
  Context caller = {.recording = false, .in_pass = true, .replica = 7};
  const ContextScope scope(caller);
  run_on(thread,
         [] {
           EXPECT_TRUE(context().recording) << "of the submitter, which was not handed over";
           EXPECT_TRUE(context().in_pass);
           EXPECT_EQ(context().replica, 2u);
           context().replica = 5;  // changes this job's copy only
         },
         {.in_pass = true, .replica = 2});
  run_on(
      thread, [] { EXPECT_EQ(context().replica, 0u) << "of the job before"; }, DeviceThread::of_submitter());
  run_on(
      thread, [] { EXPECT_TRUE(context().in_pass); }, DeviceThread::of_submitter());
  EXPECT_EQ(context().replica, 7u);
}

// A thread may call notify() while it holds a lock of its own.
TEST(DeviceThread, AsksUnderNoLockWhetherAWaitIsOver) {
  const TestDevices devices(1);
  must_end({[] {
    RankedMutex<LockRank::task_queue> mutex;
    bool over = false;
    std::latch asks(1);
    std::once_flag first;
    std::thread waiting([&] {
      DeviceThread::wait_until([&] {
        std::call_once(first, [&] { asks.count_down(); });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // meanwhile the other thread holds the lock
        const std::scoped_lock lock(mutex);
        return over;
      });
    });
    asks.wait();
    {
      const std::scoped_lock lock(mutex);
      std::this_thread::sleep_for(std::chrono::milliseconds(40));  // meanwhile the waiting thread tries to lock
      over = true;
      DeviceThread::notify();
    }
    waiting.join();
  }});
}

TEST(DeviceThread, MissesNoChangeBetweenAskingAndSleeping) {
  const TestDevices devices(1);
  must_end({[] {
    for (int i = 0; i < 200; ++i) {
      std::atomic<int> asked = 0, told = 0;
      std::thread telling([&] {
        while (told < 3) {
          while (asked <= told) std::this_thread::yield();
          ++told;
          DeviceThread::notify();
        }
      });
      DeviceThread::wait_until([&] {
        ++asked;
        return told == 3;
      });
      telling.join();
    }
  }});
}

TEST(Reservation, TakesDevicesTogether) {
  const TestDevices devices(3);
  must_end({[] {
    DeviceThread* const threads[] = {&device_state("cuda:0").thread, &device_state("cuda:1").thread,
                                     &device_state("cuda:2").thread};
    std::atomic<int> users[3] = {};
    std::vector<std::thread> passes;
    for (int t = 0; t < 3; ++t)
      passes.emplace_back([&, first = t, second = (t + 1) % 3] {
        for (int i = 0; i < 100; ++i) {
          const Reservation reservation({threads[first], threads[second]});
          EXPECT_EQ(++users[first], 1);
          EXPECT_EQ(++users[second], 1);
          --users[first];
          --users[second];
        }
      });
    for (std::thread& pass : passes) pass.join();
  }});
}

}  // namespace
}  // namespace lockstep
