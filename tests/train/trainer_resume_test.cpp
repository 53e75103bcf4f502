// A resumed Trainer ends as one that was never interrupted, or throws and changes nothing.
#include <lockstep/train/trainer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <thread>

#include <lockstep/optim/adam.h>
#include <lockstep/tensor/creation.h>

#include "io/memory_source.h"
#include "support/repetitions.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::columns_of;
using testing::FitJob;
using testing::kSilent;
using testing::same;
using testing::TemporaryFolder;
using testing::thrown;

// Runs a job of twelve steps on two devices; then, for each call of the loss, a run that is interrupted in this call
// and resumed.
void expect_resumed_bit_for_bit(const FitJob::Options& job, TrainerOptions options) {
  const TestDevices devices(2);
  options.max_epochs = 3;
  options.accumulate = 3;
  options.log_every = 3;
  options.progress = kSilent;
  const auto fit = [&options](FitJob& run, const TemporaryFolder& folder, bool resume) {
    options.checkpoint = {.folder = folder.path(), .every_steps = 2, .every_epochs = 2, .keep = 2, .resume = resume};
    return run.fit(options);
  };
  const TemporaryFolder whole_folder;
  FitJob whole(job);
  const History expected = fit(whole, whole_folder, false);
  EXPECT_EQ(CheckpointFolder(whole_folder.path()).steps(), (std::vector<std::int64_t>{10, 12}));

  for (std::int64_t fail_in = 0; fail_in < whole.calls(); fail_in += 2 * testing::kStride) {
    const TemporaryFolder folder;
    FitJob::Options failing = job;
    failing.fail_in = fail_in;
    FitJob killed(failing);
    EXPECT_THROW(fit(killed, folder, true), std::runtime_error);
    FitJob resumed(job);  // seeds the random sequence
    const History history = fit(resumed, folder, true);
    EXPECT_EQ(columns_of(history), columns_of(expected)) << fail_in;
    EXPECT_EQ(resumed.parameters(), whole.parameters()) << fail_in;
    EXPECT_TRUE(same(resumed.net().state_dict(), whole.net().state_dict())) << fail_in;
    EXPECT_TRUE(same(resumed.optimizer().state_dict(), whole.optimizer().state_dict())) << fail_in;
  }
}

TEST(TrainerResume, ResumedAfterAnyInterruptionContinuesBitForBit) {
  expect_resumed_bit_for_bit({.noise = 0.1, .validates = true}, {.gradient_clip_val = 0.5});
}

TEST(TrainerResume, ResumedWithDropoutAndBatchNormContinuesBitForBit) {
  expect_resumed_bit_for_bit({.batch_size = 4, .validates = true, .norm_and_dropout = true},
                             {.gradient_clip_val = 0.5});
}

TEST(TrainerResume, ResumedWithDividedOptimizerStateContinuesBitForBit) {
  expect_resumed_bit_for_bit(
      {.noise = 0.1, .validates = true},
      {.parallel = {.buckets = {.first_bytes = 64, .bytes = 300}, .shard = Shard::optimizer_state}});
}

TEST(TrainerResume, ResumedIn16BitPrecisionContinuesBitForBit) {
  for (const Precision precision : {Precision::bfloat16, Precision::float16})
    expect_resumed_bit_for_bit({.validates = true}, {.gradient_clip_val = 0.5, .precision = precision});
}

TEST(TrainerResume, GoesOnWithMoreEpochsFromTheFinalCheckpoint) {
  const TemporaryFolder folder;
  const auto epochs = [&](std::int64_t count) {
    return TrainerOptions{.max_epochs = count,
                          .num_gpus = 0,
                          .checkpoint = {.folder = folder.path(), .every_epochs = 0, .resume = true},
                          .progress = kSilent};
  };
  FitJob whole({}), first({}), second({}), third({});
  const History expected = whole.fit({.max_epochs = 3, .num_gpus = 0, .progress = kSilent});
  first.fit(epochs(2));
  EXPECT_EQ(columns_of(second.fit(epochs(3))), columns_of(expected));
  EXPECT_EQ(second.parameters(), whole.parameters());
  EXPECT_EQ(columns_of(third.fit(epochs(3))), columns_of(expected)) << "nothing is left to do";
}

TEST(TrainerResume, ResumesWithAnotherAccumulate) {
  const TemporaryFolder folder;
  TrainerOptions options = {.num_gpus = 0,
                            .log_every = 1,
                            .checkpoint = {.folder = folder.path(), .every_steps = 1, .keep = 0, .resume = true},
                            .progress = kSilent};
  FitJob killed({.fail_in = 4});
  EXPECT_THROW(killed.fit(options), std::runtime_error);
  options.accumulate = 2;
  const History history = FitJob({}).fit(options);  // the six remaining batches
  EXPECT_EQ(CheckpointFolder(folder.path()).steps(), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(history.column("step"), (History::Column{1, 2, 3, 4, 5, 6, 7}));
}

TEST(TrainerResume, TellsTheStepsSinceTheLastReportBeforeTheInterruption) {
  const TemporaryFolder folder;
  const auto run = [&](int fails_in, int diverges_in) {
    nn::Linear net(2, 1);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    data::DataLoader loader(data::TensorDataset(ones({10, 2})), {});
    int calls = 0;
    const auto loss = [&](auto& model, auto& batch, auto&) {
      if (++calls == fails_in) throw std::runtime_error("power failure");
      return mean(model(batch)) * (calls == diverges_in ? NAN : 1.);
    };
    Trainer({.num_gpus = 0,
             .log_every = 4,
             .checkpoint = {.folder = folder.path(), .every_steps = 2, .resume = true},
             .progress = kSilent})
        .fit(net, loader, {.loss = loss, .optimizer = optimizer});
  };
  EXPECT_THROW(run(7, 0), std::runtime_error);
  EXPECT_EQ(thrown<Diverged>([&] { run(0, 1); }),
            "[trainer] expected a finite loss, got a mean of nan over steps 5 to 8");
}

TEST(TrainerResume, CountsTheTimeOfTheRunsBefore) {
  const TemporaryFolder folder;
  const auto run = [&](int fails_in, std::chrono::milliseconds pause) {
    nn::Linear net(2, 1);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    data::DataLoader loader(data::TensorDataset(ones({4, 2})), {});
    int calls = 0;
    const auto loss = [&](auto& model, auto& batch, auto&) {
      if (++calls == fails_in) throw std::runtime_error("power failure");
      std::this_thread::sleep_for(pause);
      return mean(model(batch));
    };
    return Trainer({.num_gpus = 0,
                    .log_every = 1,
                    .checkpoint = {.folder = folder.path(), .every_steps = 1, .resume = true},
                    .progress = kSilent})
        .fit(net, loader, {.loss = loss, .optimizer = optimizer});
  };
  EXPECT_THROW(run(4, std::chrono::milliseconds(100)), std::runtime_error);
  const History::Column seconds = run(0, {}).column("seconds");
  ASSERT_EQ(seconds.size(), 4u);
  EXPECT_TRUE(std::ranges::is_sorted(seconds));
  EXPECT_GE(seconds.back(), 0.2);
}

TEST(TrainerResume, DoesNotMixTheCheckpointsOfTwoRuns) {
  const TemporaryFolder folder;
  const TrainerOptions options = {.num_gpus = 0, .checkpoint = {.folder = folder.path()}, .progress = kSilent};
  FitJob({}).fit(options);
  EXPECT_EQ(thrown<InvalidArgument>([&] { FitJob({}).fit(options); }),
            "[trainer] expected .resume = true or a folder without checkpoints, got \"" +
                (folder / "step-000000000010.safetensors").string() + '"');
}

TEST(TrainerResume, ChangesNoModelWhenTheCheckpointLacksSomething) {
  const TemporaryFolder folder;
  const TrainerOptions options = {
      .num_gpus = 0, .checkpoint = {.folder = folder.path(), .resume = true}, .progress = kSilent};
  FitJob({.schedules = false}).fit(options);
  FitJob scheduled({});
  const std::vector<float> before = scheduled.parameters();
  EXPECT_THROW(scheduled.fit(options), InvalidArgument);
  EXPECT_EQ(scheduled.parameters(), before);
}

TEST(TrainerResume, NeedsTheScheduleThatTheCheckpointHas) {
  const TemporaryFolder folder;
  const TrainerOptions options = {
      .num_gpus = 0, .checkpoint = {.folder = folder.path(), .resume = true}, .progress = kSilent};
  FitJob({}).fit(options);
  FitJob unscheduled({.schedules = false});
  const std::vector<float> before = unscheduled.parameters();
  EXPECT_EQ(
      thrown<InvalidArgument>([&] { unscheduled.fit(options); }),
      "[trainer] the checkpoint has state for the schedule, but fit() was given none. Pass the same schedule as in the "
      "first run");
  EXPECT_EQ(unscheduled.parameters(), before);
}

TEST(TrainerResume, RefusesCheckpointsWithoutAllThatIsTrained) {
  nn::Linear net(2, 1);
  nn::Parameter beside(ones({1}));
  std::vector<Tensor> parameters = net.parameters();
  parameters.push_back(beside);
  optim::Adam adam(parameters, {.lr = 0.1});
  data::DataLoader loader(data::TensorDataset<1>(ones({8, 2})), {.batch_size = 4});
  const auto loss = [&](auto& model, auto& batch, auto&) { return mean(model(batch)) * sum(beside); };
  const TemporaryFolder folder;
  TrainerOptions options = {.num_gpus = 0, .checkpoint = {.folder = folder.path()}, .progress = kSilent};
  EXPECT_EQ(
      thrown<InvalidArgument>([&] { Trainer(options).fit(net, loader, {.loss = loss, .optimizer = adam}); }),
      "[trainer] checkpoints save only the module's parameters, but the optimizer also has a parameter of shape [1]. "
      "Add it to the module's members()");
  options.checkpoint.folder.clear();
  Trainer(options).fit(net, loader, {.loss = loss, .optimizer = adam});
}

TEST(TrainerResume, ChangesNothingWhenTheCheckpointDoesNotFit) {
  const TemporaryFolder folder;
  const TrainerOptions options = {
      .num_gpus = 0, .checkpoint = {.folder = folder.path(), .every_steps = 1, .resume = true}, .progress = kSilent};
  const auto loss = [](auto& model, auto& batch, auto&) { return mean(model(batch)); };
  const auto loader = [](std::int64_t columns, std::int64_t batch_size) {
    return data::DataLoader(data::TensorDataset<1>(ones({8, columns})), {.batch_size = batch_size, .seed = 1});
  };
  {
    nn::Linear net(2, 1);
    optim::Adam adam(net.parameters(), {.lr = 0.1});
    auto batches = loader(2, 1);
    int calls = 0;
    const auto killed = [&](auto& model, auto& batch, auto&) {
      if (calls++ == 6) throw std::runtime_error("power failure");
      return mean(model(batch));
    };
    EXPECT_THROW(Trainer(options).fit(net, batches, {.loss = killed, .optimizer = adam}), std::runtime_error);
  }
  const auto expect_refusal = [&](std::int64_t columns, std::int64_t batch_size, auto optimizer_of) {
    nn::Linear net(columns, 1);
    const std::vector<float> weight = net.weight.detach().to_vector<float>();
    auto optimizer = optimizer_of(net.parameters());
    auto batches = loader(columns, batch_size);
    EXPECT_THROW(Trainer(options).fit(net, batches, {.loss = loss, .optimizer = *optimizer}), InvalidArgument);
    EXPECT_EQ(net.weight.detach().to_vector<float>(), weight);
    EXPECT_EQ(optimizer->lr(), 0.7);
    EXPECT_EQ(batches.state(), (data::LoaderState{.seed = 1, .epoch = 0, .batch = 0, .batch_size = batch_size}));
  };
  const auto adam = [](auto parameters) {
    return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 0.7});
  };
  expect_refusal(2, 1, [](auto parameters) {  // another optimizer
    return std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.7, .momentum = 0.5});
  });
  expect_refusal(2, 4, adam);  // fewer batches
  expect_refusal(3, 1, adam);  // another model
}

}  // namespace
}  // namespace lockstep::train
