// What the processes of a job have to have alike is compared where it begins to count: what differs is named, with the
// same error in each process, before anything has changed.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <lockstep/core/error.h>

#include "parallel/job.h"
#include "support/ending_processes.h"
#include "support/repetitions.h"

namespace lockstep {
namespace {

using testing::message_of;

class Agreement : public ::testing::Test {
 protected:
  using Messages = std::vector<std::string>;

  // What an InvalidArgument says in each process, in each of some tries.
  static void expect_refused(int processes, const std::string& message, const std::function<void(const World&)>& f,
                             int tries = testing::repetitions(20)) {
    for (int seed = 0; seed < tries; ++seed) {
      Messages got;
      for (const auto& failure : testing::in_ending_processes(processes, std::uint64_t(seed), f))
        got.push_back(message_of<InvalidArgument>(failure));
      ASSERT_EQ(got, Messages(std::size_t(processes), message)) << "seed " << seed;
    }
  }
  static bool is_second(const World& world) { return world.rank() == ProcessRank(1); }
  static DataParallelOptions on_own_device(const World& world) {
    return {.device_ids = {world.rank().value()}, .world = world};
  }

  SimulatedDevices devices_{{.count = 3}};
};

TEST_F(Agreement, NamesWhatOfAModelDiffers) {
  for (const int processes : {2, 3})
    expect_refused(
        processes,
        "[DataParallel] expected the same model in all processes, got parameter \"weight\" [3, 5] float32 in process 0 "
        "on simulated-host-0 and parameter \"weight\" [4, 5] float32 in process 1 on simulated-host-1",
        [](const World& world) {
          DataParallel model(nn::Linear(5, is_second(world) ? 4 : 3), on_own_device(world));
        },
        testing::repetitions(100));
}

TEST_F(Agreement, NamesWhoDoesSomethingElse) {
  const auto failures = testing::in_processes(2, [](const World& world) {
    world.barrier(world.is_first() ? "one thing" : "another");
  });
  for (const auto& failure : failures) {
    const std::string message = message_of<CollectiveError>(failure);
    EXPECT_TRUE(message.find("came to \"another\" where process 0 on simulated-host-0 came to \"one thing\"") !=
                    std::string::npos ||
                message.find("came to \"one thing\" where process 1 on simulated-host-1 came to \"another\"") !=
                    std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace lockstep
