// An error that ends training in one of several processes ends it in all; only process 0 prints and writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/in_processes.h"
#include "support/temporary_folder.h"
#include "train/small_job.h"

namespace lockstep::train {
namespace {

using testing::in_processes;
using testing::is_second;
using testing::JobSettings;
using testing::message_of;
using testing::SmallJob;
using testing::TemporaryFolder;
using testing::thrown_in_processes;

using Strings = std::vector<std::string>;

class ErrorsOfManyProcesses : public ::testing::Test {
 protected:
  SimulatedDevices devices_{{.count = 3}};
  TemporaryFolder folder_, other_;
};

TEST_F(ErrorsOfManyProcesses, OnlyTheFirstPrints) {
  std::vector<std::ostringstream> printed(3);
  const auto failures = in_processes(3, SmallJob([&](const World& world, JobSettings& settings) {
                                       auto& out = printed[std::size_t(world.rank().value())];
                                       settings.trainer.progress = {.out = &out, .terminal_width = 0};
                                     }));
  for (const auto& failure : failures) EXPECT_FALSE(failure) << message_of<Error>(failure);
  EXPECT_TRUE(printed[0].str().starts_with("epoch 1/1, step 3: train_loss ")) << printed[0].str();
  EXPECT_EQ(printed[1].str(), "");
  EXPECT_EQ(printed[2].str(), "");
}

TEST_F(ErrorsOfManyProcesses, OnlyTheFirstWrites) {
  in_processes(2, SmallJob([&](const World& world, JobSettings& settings) {
                 settings.trainer.checkpoint.folder = (world.is_first() ? folder_ : other_) / "run";
               }));
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"run"}));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / "step-000000000003.safetensors"));
  EXPECT_TRUE(other_.names().empty());
}

TEST_F(ErrorsOfManyProcesses, ALossThatIsNotFiniteInOneIsDivergedInAll) {
  EXPECT_EQ(thrown_in_processes<Diverged>(3, SmallJob([](const World& world, JobSettings& settings) {
                                            settings.trainer.log_every = 1;
                                            if (is_second(world))
                                              settings.factor = [](std::int64_t call) { return call == 1 ? NAN : 1.; };
                                          })),
            Strings(3, "[trainer] expected a finite loss, got a mean of nan over steps 2 to 2"));
}

TEST_F(ErrorsOfManyProcesses, AnErrorOfOneEndsTheOthersWithItsName) {
  const auto failures = in_processes(3, SmallJob([](const World& world, JobSettings& settings) {
                                       if (is_second(world))
                                         settings.factor = [](std::int64_t call) -> double {
                                           throw std::runtime_error("power failure in call " + std::to_string(call));
                                         };
                                     }));
  EXPECT_EQ(message_of<std::runtime_error>(failures[1]), "power failure in call 0");
  for (const int other : {0, 2}) {
    const std::string error = message_of<CollectiveError>(failures[std::size_t(other)]);
    EXPECT_NE(error.find("process 1 on simulated-host-1 failed: power failure in call 0"), std::string::npos) << error;
  }
}

TEST(ModelsOfManyProcesses, ThatATrainerOfOneProcessTookAreNamed) {
  const SimulatedDevices devices({.count = 4});
  const auto messages = thrown_in_processes<InvalidArgument>(2, [](const World& world) {
    const int first = world.rank().value() * 2;
    DataParallel model(nn::Linear(5, 3), {.device_ids = {first, first + 1}, .world = world});
    mean(model(ones({4, 5}))).backward();
    if (is_second(world)) {
      const Trainer alone({.devices = {Device::cuda(first), Device::cuda(first + 1)}});
      std::vector<Tensor> batches = {ones({4, 5})};
      alone.predict(model.module(), batches);
    }
    mean(model(ones({4, 5}))).backward();
  });
  for (const std::string& message : messages)
    EXPECT_NE(
        message.find("nothing like it in process 0 on simulated-host-0 and another DataParallel or Trainer took the "
                     "parameters in process 1"),
        std::string::npos)
        << message;
}

TEST_F(ErrorsOfManyProcesses, AnErrorOfAllLeavesThemTogether) {
  in_processes(2, [](const World& world) {
    EXPECT_THROW(SmallJob([](const World&, JobSettings& settings) {
                   settings.factor = [](std::int64_t) { return NAN; };
                 })(world),
                 Diverged);
    EXPECT_EQ(world.all_gather(std::int64_t(world.rank().value())), (std::vector<std::int64_t>{0, 1}));
  });
}

TEST_F(ErrorsOfManyProcesses, ACheckpointThatCannotBeWrittenIsAnErrorInAll) {
  const auto failures = in_processes(3, SmallJob([&](const World& world, JobSettings& settings) {
                                       settings.trainer.checkpoint = {.folder = folder_.path(), .every_steps = 2};
                                       if (world.is_first())
                                         settings.factor = [&](std::int64_t) {  // a file cannot replace a folder
                                           create_directories(folder_ / "step-000000000002.safetensors" / "x");
                                           return 1.;
                                         };
                                     }));
  const std::string error = message_of<IoError>(failures[0]);
  EXPECT_NE(error.find("step-000000000002.safetensors"), std::string::npos) << error;
  for (const int other : {1, 2})
    EXPECT_EQ(message_of<IoError>(failures[std::size_t(other)]), error + " (in process 0 on simulated-host-0)");
}

TEST_F(ErrorsOfManyProcesses, AFolderThatCannotBeMadeIsAnErrorInAll) {
  testing::write_file(folder_ / "file", "");
  for (const auto& failure : in_processes(2, SmallJob([&](const World&, JobSettings& settings) {
                                            settings.trainer.checkpoint.folder = folder_ / "file" / "run";
                                          })))
    EXPECT_EQ(message_of<IoError>(failure).find("another"), std::string::npos) << message_of<IoError>(failure);
}

TEST_F(ErrorsOfManyProcesses, AllPassOverWhatTheFirstFindsDamaged) {
  const auto run = [&](std::int64_t epochs, std::vector<History>& histories) {
    return in_processes(2, [&](const World& world) {
      histories[std::size_t(world.rank().value())] = SmallJob([&](const World&, JobSettings& settings) {
        settings.trainer.max_epochs = epochs;
        settings.trainer.checkpoint = {.folder = folder_.path(), .every_steps = 2, .resume = true};
      })(world);
    });
  };
  std::vector<History> histories(2);
  run(1, histories);
  testing::write_file(folder_ / "step-000000000003.safetensors", "damaged");
  ::testing::internal::CaptureStderr();
  const auto failures = run(2, histories);
  const std::string told = ::testing::internal::GetCapturedStderr();
  for (const auto& failure : failures) EXPECT_FALSE(failure) << message_of<Error>(failure);
  EXPECT_EQ(std::ranges::count(told, '\n'), 1) << told;
  ASSERT_EQ(histories[0].notes().size(), 1u);
  EXPECT_NE(histories[0].notes()[0].find("step-000000000003.safetensors"), std::string::npos);
  EXPECT_EQ(histories[1].notes(), histories[0].notes());
  EXPECT_EQ(histories[1].csv(), histories[0].csv());
}

TEST_F(ErrorsOfManyProcesses, AFolderThatNotAllSeeIsAnErrorInAll) {
  const auto run = [&](bool together, bool resume) {
    return in_processes(2, SmallJob([&, together, resume](const World& world, JobSettings& settings) {
                          const auto& folder = together || world.is_first() ? folder_ : other_;
                          settings.trainer.checkpoint = {.folder = folder.path(), .resume = resume};
                        }));
  };
  run(true, false);
  const auto failures = run(false, true);
  const std::string error = message_of<Error>(failures[1]);
  EXPECT_NE(error.find("its folder must be one that all processes see"), std::string::npos) << error;
  EXPECT_EQ(message_of<Error>(failures[0]), error + " (in process 1 on simulated-host-1)");
}

TEST_F(ErrorsOfManyProcesses, FoldersOfDifferentRunsAreAnErrorInAll) {
  for (const auto* folder : {&folder_, &other_})
    in_processes(
        2, SmallJob([&](const World&, JobSettings& settings) { settings.trainer.checkpoint.folder = folder->path(); }));
  const Strings errors =
      thrown_in_processes<InvalidArgument>(2, SmallJob([&](const World& world, JobSettings& settings) {
                                             const auto& folder = world.is_first() ? folder_ : other_;
                                             settings.trainer.checkpoint = {.folder = folder.path(), .resume = true};
                                           }));
  EXPECT_TRUE(errors[0].starts_with("[trainer] expected the same in all processes, got a checkpoint of step 3 after "))
      << errors[0];
  EXPECT_EQ(errors[1], errors[0]);
}

TEST_F(ErrorsOfManyProcesses, OptionsThatDifferAreRefusedInAll) {
  EXPECT_EQ(thrown_in_processes<InvalidArgument>(2, SmallJob([](const World& world, JobSettings& settings) {
                                                   if (is_second(world)) settings.trainer.max_epochs = 4;
                                                 })),
            Strings(2,
                    "[trainer] expected the same in all processes, got max_epochs 1 in process 0 on simulated-host-0 "
                    "and max_epochs 4 in process 1 on simulated-host-1"));
  EXPECT_EQ(thrown_in_processes<InvalidArgument>(2, SmallJob([](const World& world, JobSettings& settings) {
                                                   if (is_second(world))
                                                     settings.trainer.devices.push_back(Device::cuda(2));
                                                 })),
            Strings(2,
                    "[trainer] expected the same in all processes, got devices 1 in process 0 on simulated-host-0 and "
                    "devices 2 in process 1 on simulated-host-1"));
}

TEST_F(ErrorsOfManyProcesses, ALoaderOfOtherRowsIsRefusedInAll) {
  const std::string refusal =
      "[trainer] expected loaders with .share = trainer.share(), that of process 1 of 2 with 1 devices each, got that "
      "of "
      "process 0 of 2 with 1 devices each";
  EXPECT_EQ(thrown_in_processes<InvalidArgument>(2, SmallJob([](const World&, JobSettings& settings) {
                                                   settings.share = data::BatchShare{.processes = 2};
                                                 })),
            (Strings{refusal + " (in process 1 on simulated-host-1)", refusal}));
}

TEST_F(ErrorsOfManyProcesses, ALostDeviceIsNotGoneOnWithout) {
  EXPECT_EQ(
      thrown_in_processes<InvalidArgument>(2, SmallJob([&](const World&, JobSettings& settings) {
                                             settings.trainer.checkpoint.folder = folder_.path();
                                             settings.trainer.on_lost_device = OnLostDevice::resume;
                                           })),
      Strings(2,
              "[trainer] expected on_lost_device = stop with several processes (start the job again to resume), got "
              "resume with 2 processes"));
}

TEST_F(ErrorsOfManyProcesses, TheCpuBesideGpusIsRefused) {
  EXPECT_EQ(thrown_in_processes<InvalidArgument>(
                2, SmallJob([](const World&, JobSettings& settings) { settings.trainer.devices = {Device()}; })),
            Strings(2, "[trainer] expected GPUs with several processes, since this machine has GPUs, got the CPU"));
}

}  // namespace
}  // namespace lockstep::train
