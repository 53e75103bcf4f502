// A device is lost anywhere in training: the first try on the remaining devices succeeds, and the lost device is no
// longer visible.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <lockstep/ops/loss.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/parallel/sync_batch_norm.h>
#include <lockstep/runtime/communicator.h>

#include "parallel/mlp_job.h"
#include "support/repetitions.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

// The number of devices to lose, from LOCKSTEP_LOST_DEVICES.
int losses() {
  const char* const count = std::getenv("LOCKSTEP_LOST_DEVICES");
  return count ? std::atoi(count) : testing::repetitions(30);
}

nn::Sequential net() {
  manual_seed(1);
  return nn::Sequential(nn::Linear(5, 8), nn::SyncBatchNorm(8), nn::ReLU(), nn::Dropout(0.3), nn::Linear(8, 2));
}

// A whole training loop on all visible devices, as a user would write it.
class Training {
 public:
  explicit Training(Shard shard) : model_(net(), {.buckets = {.first_bytes = 64}, .shard = shard}) {}

  double step() {
    optimizer_.zero_grad();
    const Tensor output = model_(randn({13, 5}).to(model_.device()));
    const Tensor loss = mean(output * output);
    loss.backward();
    optim::clip_grad_norm_(model_.parameters(), 1);
    optimizer_.step();
    return loss.item<double>();
  }

  std::size_t device_count() const { return model_.devices().size(); }

 private:
  DataParallel<nn::Sequential> model_;
  optim::Adam optimizer_{model_.parameters(), {.lr = 0.01}};
};

std::uint64_t operations(const SimulatedDevices& devices, int device) {
  const OperationCounts counts = devices.counts(device);
  return counts.launches + counts.copies + counts.collectives;
}

TEST(LostDevice, TheFirstTryOnTheDevicesThatAreLeftSucceeds) {
  std::mt19937 random(7);
  for (int i = 0; i < losses(); ++i) {
    const int count = 2 + int(random() % 4), lost = int(random() % unsigned(count));
    const auto shard = Shard(random() % 5);
    SCOPED_TRACE(std::to_string(i) + ": cuda:" + std::to_string(lost) + " of " + std::to_string(count) + ", level " +
                 std::to_string(int(shard)));
    SimulatedDevices devices({.count = count, .memory_bytes = 64 << 20, .seed = random(), .max_delay_us = 20});
    std::uint64_t in_two_steps = 0;
    {
      Training rehearsal(shard);
      for (int s = 0; s < 3; ++s) {
        if (s == 1) in_two_steps = operations(devices, lost);
        rehearsal.step();
        synchronize(Device::cuda(lost));
      }
      in_two_steps = operations(devices, lost) - in_two_steps;
    }
    devices.fault().lose_device({.device = lost, .nth = 1 + random() % (2 * in_two_steps)});
    bool failed = false;
    try {
      Training training(shard);
      for (int s = 0; s < 9; ++s) training.step();
    } catch (const Error&) {
      failed = true;
    }
    ASSERT_TRUE(failed);
    try {
      Training again(shard);
      EXPECT_EQ(again.device_count(), std::size_t(count - 1));
      for (int s = 0; s < 2; ++s) again.step();
      for (const Device& device : try_all_gpus()) synchronize(device);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

class LostDeviceOfThree : public ::testing::Test {
 protected:
  LostDeviceOfThree() {
    devices_.fault().lose_device({.device = 1});
    EXPECT_THROW(values(ones({1}, {.device = "cuda:1"})), BackendError);
  }

  SimulatedDevices devices_{{.count = 3}};
};

TEST_F(LostDeviceOfThree, IsNoLongerVisibleAndTheOthersKeepTheirNames) {
  EXPECT_EQ(cuda::device_count(), 2);
  EXPECT_EQ(try_all_gpus(), (std::vector<Device>{"cuda:0", "cuda:2"}));
  EXPECT_EQ(try_gpu(1), Device());
  EXPECT_EQ(try_gpu(2), Device("cuda:2"));
  EXPECT_EQ(values(ones({2}, {.device = "cuda:2"})), std::vector<double>(2, 1));
  DataParallel<nn::Linear> model(nn::Linear(2, 2));
  EXPECT_EQ(model.devices(), (std::vector<Device>{"cuda:0", "cuda:2"}));
  EXPECT_EQ(model(ones({4, 2})).sizes(), (Shape{4, 2}));
}

TEST_F(LostDeviceOfThree, IsRefusedByItsName) {
  const std::string reason =
      " failed on cuda:1 with code 46: the device was lost. What to do: leave it out; there is cuda:0, cuda:2";
  nn::Linear layer(2, 2);
  EXPECT_EQ(thrown<BackendError>([&] {
              DataParallel<nn::Linear>(nn::Linear(2, 2), {.device_ids = {0, 1}});
            }),
            "[DataParallel]" + reason);
  EXPECT_EQ(thrown<BackendError>([] { Communicator({"cuda:0", "cuda:1"}); }), "[Communicator]" + reason);
  EXPECT_EQ(thrown<BackendError>([] { ones({1}, {.device = "cuda:1"}); }),
            "[allocate] failed on cuda:1 with code 46: the device is lost");
}

TEST_F(LostDeviceOfThree, IsThereAgainWhenTheFaultIsTakenBack) {
  devices_.fault().clear();
  EXPECT_EQ(cuda::device_count(), 3);
}

TEST(LostDevice, TheOnlyOneLeavesTheCpu) {
  SimulatedDevices devices({.count = 1});
  devices.fault().lose_device({.device = 0});
  EXPECT_THROW(values(ones({1}, {.device = "cuda:0"})), BackendError);
  EXPECT_FALSE(cuda::is_available());
  EXPECT_EQ(try_all_gpus(), std::vector<Device>{"cpu"});
}

// Operations that throw leave no error in their devices' streams.
class Drained : public ::testing::Test {
 protected:
  // Expects that `work` throws, and that nothing throws after it.
  template <class Work>
  void expect_throws_once(const Work& work) {
    EXPECT_THROW(work(), Error);
    devices_.fault().clear();
    for (int d = 0; d < 3; ++d) EXPECT_NO_THROW(synchronize(Device::cuda(d))) << "cuda:" << d;
  }

  // Causes an error on a stream of the pool, which nothing has thrown yet.
  static void fail_beside(SimulatedDevices& devices, int d) {
    const StreamGuard on(Stream::from_pool(Device::cuda(d)));
    devices.fault().fail_launch({.device = d});
    const Tensor unused = ones({1}, {.device = Device::cuda(d)});
  }

  SimulatedDevices devices_{{.count = 3}};
  DataParallel<testing::Mlp> model_{testing::Mlp()};
  Tensor input_ = randn({12, 5});
};

TEST_F(Drained, APass) {
  model_(input_);
  fail_beside(devices_, 1);
  devices_.fault().fail_allocation({.device = 2});
  expect_throws_once([&] { model_(input_); });
}

TEST_F(Drained, ABackward) {
  const Tensor loss = sum(model_(input_));
  fail_beside(devices_, 1);
  devices_.fault().fail_allocation({.device = 0});
  expect_throws_once([&] { loss.backward(); });
}

TEST_F(Drained, AStep) {
  optim::Adam optimizer(model_.parameters(), {});
  sum(model_(input_)).backward();
  fail_beside(devices_, 1);
  devices_.fault().fail_allocation({.device = 2});
  expect_throws_once([&] { optimizer.step(); });
}

TEST_F(Drained, AttachesWhatElseHadFailed) {
  fail_beside(devices_, 1);
  devices_.fault().fail_allocation({.device = 2});
  try {
    model_(input_);
    FAIL();
  } catch (const OutOfMemory& error) {
    ASSERT_EQ(error.attached().size(), 1u);
    EXPECT_THROW(std::rethrow_exception(error.attached()[0]), BackendError);
  }
}

TEST_F(Drained, TellsOnStandardErrorWhatAnotherLibrarysExceptionCannotHold) {
  struct Throws : nn::Module<Throws> {
    Tensor forward(const Tensor&) { throw std::runtime_error("the user's"); }
  };
  DataParallel<Throws> model{Throws()};
  fail_beside(devices_, 1);
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(model(input_), std::runtime_error);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("failed on cuda:1 with code 719: an injected fault"),
            std::string::npos);
  EXPECT_NO_THROW(synchronize("cuda:1"));
}

}  // namespace
}  // namespace lockstep
