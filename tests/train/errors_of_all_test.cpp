// An error that all processes of a training run throw is the same in all, whichever is quicker: no process learns that
// another has ended before it knows why.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/ending_processes.h"
#include "support/repetitions.h"
#include "support/temporary_folder.h"
#include "train/small_job.h"

namespace lockstep::train {
namespace {

using testing::is_second;
using testing::JobSettings;
using testing::message_of;
using testing::SmallJob;

class ErrorsOfAll : public ::testing::TestWithParam<int> {
 protected:
  // Every process throws an E whose message begins like this, in all repetitions, which differ in their delays.
  template <class E>
  void expect(const std::string& beginning, const std::function<void(const World&, JobSettings&)>& change) {
    int others = 0;
    for (int seed = 0; seed < testing::repetitions(100); ++seed)
      for (const auto& failure : testing::in_ending_processes(GetParam(), std::uint64_t(seed), SmallJob(change))) {
        const std::string message = message_of<E>(failure);
        if (message.starts_with(beginning)) continue;
        if (++others < 4) ADD_FAILURE() << "seed " << seed << ": " << message;
      }
    EXPECT_EQ(others, 0);
  }

  SimulatedDevices devices_{{.count = 4}};
  testing::TemporaryFolder folder_;
};

TEST_P(ErrorsOfAll, OfAnOptionThatDiffers) {
  expect<InvalidArgument>("[trainer] expected the same in all processes, got max_epochs",
                          [](const World& world, JobSettings& settings) {
                            if (is_second(world)) settings.trainer.max_epochs = 4;
                          });
}

TEST_P(ErrorsOfAll, OfDevicesThatDiffer) {
  expect<InvalidArgument>("[trainer] expected the same in all processes, got devices",
                          [](const World& world, JobSettings& settings) {
                            if (is_second(world)) settings.trainer.devices.push_back(Device::cuda(3));
                          });
}

TEST_P(ErrorsOfAll, OfALoaderOfOtherRows) {
  expect<InvalidArgument>("[trainer] expected loaders with .share = trainer.share()",
                          [](const World& world, JobSettings& settings) {
                            if (is_second(world)) settings.share = data::BatchShare{.processes = world.size()};
                          });
}

TEST_P(ErrorsOfAll, OfALossThatIsNotFinite) {
  expect<Diverged>("[trainer] expected a finite loss", [](const World& world, JobSettings& settings) {
    if (is_second(world)) settings.factor = [](std::int64_t) { return NAN; };
  });
}

TEST_P(ErrorsOfAll, OfAFolderThatCannotBeMade) {
  testing::write_file(folder_ / "file", "");
  expect<IoError>(
      "[", [&](const World&, JobSettings& settings) { settings.trainer.checkpoint.folder = folder_ / "file" / "run"; });
}

INSTANTIATE_TEST_SUITE_P(Processes, ErrorsOfAll, ::testing::Values(2, 3));

}  // namespace
}  // namespace lockstep::train
