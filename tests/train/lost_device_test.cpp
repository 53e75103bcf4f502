// A Trainer continues without a device that was lost.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/train/callbacks.h>

#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep {
namespace {

using testing::FitJob;
using testing::kSilent;
using testing::TemporaryFolder;
using testing::thrown;
using train::OnLostDevice;

class LostDevice : public ::testing::TestWithParam<int> {
 protected:
  train::TrainerOptions options(OnLostDevice on_lost_device = OnLostDevice::resume) const {
    return {.max_epochs = 3,
            .gradient_clip_val = 1,
            .log_every = 2,
            .checkpoint = {.folder = folder_.path(), .every_steps = 2},
            .on_lost_device = on_lost_device,
            .progress = kSilent};
  }

  // The number of operations of the device in a whole run.
  std::uint64_t operations(int device) const {
    const TemporaryFolder other;
    FitJob job({.validates = true});
    const std::uint64_t before = counted(device);
    train::TrainerOptions all = options();
    all.checkpoint.folder = other.path();
    job.fit(all);
    return counted(device) - before;
  }

  std::uint64_t counted(int device) const {
    const OperationCounts counts = devices_.counts(device);
    return counts.launches + counts.copies + counts.collectives;
  }

  TemporaryFolder folder_;
  SimulatedDevices devices_{{.count = 3}};
};

TEST_P(LostDevice, IsLeftOutAndTrainingGoesOnFromTheNewestCheckpoint) {
  const int lost = GetParam();
  train::EarlyStopping expected_early({.patience = 9}), early(expected_early);
  FitJob whole({.validates = true, .callbacks = {expected_early}});
  const train::History expected =
      whole.fit({.max_epochs = 3, .num_gpus = 3, .gradient_clip_val = 1, .log_every = 2, .progress = kSilent});
  const std::vector<float> right = whole.parameters();
  devices_.fault().lose_device({.device = lost, .nth = operations(lost) / 2});
  FitJob job({.validates = true, .callbacks = {early}});
  const std::vector<Tensor> handles = job.net().parameters();
  ::testing::internal::CaptureStderr();
  const train::History history = job.fit(options());
  const std::string told = ::testing::internal::GetCapturedStderr();
  const std::string name = Device::cuda(lost).name();
  EXPECT_TRUE(told.starts_with("[trainer] lost " + name + ": ")) << told;
  ASSERT_EQ(history.notes().size(), 1u);
  EXPECT_TRUE(history.notes()[0].starts_with("lost " + name + ": ")) << history.notes()[0];
  EXPECT_EQ(history.rows(), expected.rows());
  EXPECT_NEAR(history.column("validation_loss").back().value(), expected.column("validation_loss").back().value(),
              1e-4);
  EXPECT_EQ(early.best_epoch(), expected_early.best_epoch());
  EXPECT_EQ(early.wait_count(), expected_early.wait_count());
  EXPECT_NEAR(early.best_score(), expected_early.best_score(), 1e-4);
  const std::vector<float> got = job.parameters();
  for (std::size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(got[i], right[i], 1e-4) << i;
  for (std::size_t i = 0; i < handles.size(); ++i) EXPECT_TRUE(handles[i].is_same(job.net().parameters()[i]));
}

INSTANTIATE_TEST_SUITE_P(Devices, LostDevice, ::testing::Values(0, 1, 2));

class LostDeviceOfATrainer : public LostDevice {
 protected:
  // One epoch writes checkpoints; a device is lost in the next.
  void lose_after_an_epoch(int device) {
    train::TrainerOptions first = options();
    first.max_epochs = 1;
    FitJob({}).fit(first);
    devices_.fault().lose_device({.device = device, .nth = 20});
  }
  train::TrainerOptions resuming(OnLostDevice on_lost_device) const {
    train::TrainerOptions all = options(on_lost_device);
    all.checkpoint.resume = true;
    return all;
  }
};

TEST_F(LostDeviceOfATrainer, IsAnErrorUnlessTheOptionSaysOtherwise) {
  lose_after_an_epoch(1);
  FitJob job({});
  EXPECT_THROW(job.fit(resuming(OnLostDevice::stop)), Error);
  for (const Device& device : try_all_gpus()) EXPECT_NO_THROW(synchronize(device));
}

TEST_F(LostDeviceOfATrainer, IsAnErrorWithoutACheckpoint) {
  devices_.fault().lose_device({.device = 1, .nth = 20});
  FitJob job({});
  EXPECT_THROW(job.fit(options()), Error);
}

TEST_F(LostDeviceOfATrainer, IsAnErrorWhereNoneIsLeft) {
  lose_after_an_epoch(0);
  train::TrainerOptions one = resuming(OnLostDevice::resume);
  one.devices = {"cuda:0"};
  FitJob job({});
  EXPECT_THROW(job.fit(one), BackendError);
}

TEST_F(LostDeviceOfATrainer, IsLeftOutOfTheFirstSoMany) {
  lose_after_an_epoch(0);
  EXPECT_THROW(FitJob({}).fit(resuming(OnLostDevice::stop)), Error);
  EXPECT_EQ(train::Trainer({.num_gpus = 2}).devices(), (std::vector<Device>{"cuda:1", "cuda:2"}));
  EXPECT_EQ(thrown<BackendError>([] { train::Trainer({.devices = {"cuda:0"}}); }),
            "[trainer] failed on cuda:0 with code 46: the device was lost. What to do: leave it out; there is cuda:1, "
            "cuda:2");
  EXPECT_EQ(thrown<InvalidArgument>([] { train::Trainer({.num_gpus = 3}); }),
            "[trainer] expected num_gpus from 0 to 2, got 3; there is cpu, cuda:1, cuda:2");
}

TEST_F(LostDeviceOfATrainer, NeedsAFolderToGoOnFrom) {
  EXPECT_EQ(thrown<InvalidArgument>([] { train::Trainer({.on_lost_device = OnLostDevice::resume}); }),
            "[trainer] expected checkpoint.folder with on_lost_device = resume, got none");
}

}  // namespace
}  // namespace lockstep
