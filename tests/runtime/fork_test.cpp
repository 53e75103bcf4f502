// A forked process has none of its parent's threads: it throws instead of waiting for them.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/runtime/stream.h>

#include "backends/sim/sim_backend.h"
#include "cpu/parallel.h"
#include "runtime/registry.h"

namespace lockstep {
namespace {

// Returns the exit status of a child that calls `job`: the job's result, or the signal that ended the child.
int in_child(const std::function<int()>& job) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(job());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class Fork : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork of several threads";
#endif
    devices_ = std::make_unique<SimulatedDevices>(SimulationOptions{.count = 2});
    used_.emplace(Stream::from_pool("cuda:1").record());
  }

  static int throws(const std::function<void()>& call) {
    return in_child([&] {
      try {
        call();
      } catch (const BackendError& error) {
        return error.code == ENOTRECOVERABLE && error.device == "a forked process" ? 42 : 1;
      } catch (...) {
      }
      return 2;
    });
  }

  std::unique_ptr<SimulatedDevices> devices_;
  std::optional<cuda::Event> used_;
};

TEST_F(Fork, AfterGpusWereUsedTheFirstCallThrows) {
  EXPECT_EQ(throws([] { device_state("cuda:1"); }), 42);
  EXPECT_EQ(throws([] { device_state("cpu"); }), 42);
  EXPECT_EQ(throws([] { static_cast<void>(cuda::device_count()); }), 42);
  EXPECT_EQ(throws([] { synchronize("cuda:1"); }), 42);
  EXPECT_EQ(throws([&] { used_->synchronize(); }), 42);
  DeviceState& state = device_state("cuda:1");
  EXPECT_EQ(throws([&] { current_stream_handle(state); }), 42);
  EXPECT_EQ(throws([&] { state.thread.submit([] {}); }), 42);
}

TEST_F(Fork, TheParentGoesOn) {
  EXPECT_EQ(in_child([] { return 3; }), 3);
  EXPECT_NO_THROW(synchronize("cuda:1"));
}

TEST_F(Fork, TheChildMayLetGoOfDevices) {
  EXPECT_EQ(in_child([&] {
              used_.reset();
              devices_.reset();
              return 5;
            }),
            5);
}

// Runs in a new process, which never had a GPU.
TEST(ForkDeathTest, AfterTheCpuAloneTheChildComputesWithoutThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not follow a fork of several threads";
#endif
  const auto run = [] {
    ::setenv("LOCKSTEP_DEVICES", "none", 1);
    const auto all_done = [] {
      std::vector<int> done(1 << 16);
      host::parallel_for({.parallel = true}, std::int64_t(done.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) done[std::size_t(i)] = 1;
      });
      device_state("cpu");
      return std::ranges::count(done, 1) == std::ssize(done) ? 7 : 1;
    };
    std::exit(all_done() == 7 ? in_child(all_done) : 2);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace lockstep
