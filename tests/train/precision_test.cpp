// A Trainer in 16-bit precision equals a hand-written loop with an autocast region and a GradScaler.
#include <gtest/gtest.h>

#include <vector>

#include <lockstep/autograd/autocast.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/grad_scaler.h>
#include <lockstep/train/trainer.h>

#include "support/test_devices.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::FitJob;
using testing::kSilent;

std::vector<float> values(const std::vector<Tensor>& tensors) {
  std::vector<float> all;
  for (const Tensor& tensor : tensors)
    for (const float value : tensor.detach().cpu().to_vector<float>()) all.push_back(value);
  return all;
}

struct Task {
  nn::Sequential net{nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2)};
  data::DataLoader<data::TensorDataset<2>> loader{data::TensorDataset<2>(randn({40, 4}), randn({40, 2})),
                                                  {.batch_size = 10}};
  optim::SGD optimizer{net.parameters(), {.lr = 0.1, .momentum = 0.9}};
};

TEST(TrainerPrecision, Float16IsTheLoopThatOneWouldWrite) {
  manual_seed(1);
  Task expected;
  optim::GradScaler scaler;
  int skipped = 0;
  for (int epoch = 0; epoch < 6; ++epoch)
    for (auto [input, target] : expected.loader) {
      expected.optimizer.zero_grad();
      Tensor loss;
      {
        const Autocast region(kFloat16);
        loss = mse_loss(expected.net(input), target) * 4096;
      }
      scaler.scale(loss).backward();
      scaler.unscale_(expected.optimizer);
      optim::clip_grad_norm_(expected.net.parameters(), 1);
      skipped += !scaler.step(expected.optimizer);
      scaler.update();
    }
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, 20);

  manual_seed(1);
  Task task;
  const auto loss = [](auto& model, auto& batch, auto&) {
    EXPECT_EQ(autocast_dtype(), kFloat16);
    auto& [input, target] = batch;
    return mse_loss(model(input), target) * 4096;
  };
  const Trainer trainer(
      {.max_epochs = 6, .num_gpus = 0, .gradient_clip_val = 1, .precision = Precision::float16, .progress = kSilent});
  trainer.fit(task.net, task.loader, {.loss = loss, .optimizer = task.optimizer});
  EXPECT_EQ(values(task.net.parameters()), values(expected.net.parameters()));
  for (const Tensor& parameter : task.net.parameters()) EXPECT_EQ(parameter.dtype(), kFloat32);
}

TEST(TrainerPrecision, TrainsOnSeveralDevicesNearlyAsInFloat32) {
  const auto losses = [](int devices, Precision precision) {
    const TestDevices simulated(devices);
    FitJob job({});
    return job.fit({.max_epochs = 3, .precision = precision, .progress = kSilent}).column("train_loss");
  };
  const auto expected = losses(1, Precision::float32);
  for (const Precision precision : {Precision::bfloat16, Precision::float16})
    for (const int devices : {1, 2, 3}) {
      const auto got = losses(devices, precision);
      ASSERT_EQ(got.size(), expected.size());
      // A product in bfloat16 has a relative error of 2^-9. float16 skips steps that overflow, so only the end is
      // close.
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(*got[i], *expected[i], precision == Precision::bfloat16 ? 0.02 : 0.2) << devices << " devices";
    }
}

}  // namespace
}  // namespace lockstep::train
