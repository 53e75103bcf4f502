#include "runtime/device_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "runtime/registry.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

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
           context().replica = 5;  // of this job's copy
         },
         {.in_pass = true, .replica = 2});
  run_on(
      thread, [] { EXPECT_EQ(context().replica, 0u) << "of the job before"; }, DeviceThread::of_submitter());
  run_on(
      thread, [] { EXPECT_TRUE(context().in_pass); }, DeviceThread::of_submitter());
  EXPECT_EQ(context().replica, 7u);
}

}  // namespace
}  // namespace lockstep
