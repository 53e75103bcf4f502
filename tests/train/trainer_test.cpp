// A Trainer gives the same results on any number of devices and with any division into batches.
#include <lockstep/train/trainer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include <lockstep/nn/functional.h>
#include <lockstep/optim/sequential_lr.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::FitJob;
using testing::kSilent;
using testing::TemporaryFolder;
using testing::thrown;

void expect_near(const std::vector<float>& a, const std::vector<float>& b, double relative) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * (1 + std::abs(b[i]))) << i;
}

void expect_near(const History::Column& a, const History::Column& b, double relative) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i].value(), b[i].value(), relative * std::abs(b[i].value())) << i;
}

TEST(Trainer, TrainsTheSameOnOneDeviceAndOnThree) {
  const TestDevices devices(3);
  FitJob on_cpu({.validates = true});
  const History expected = on_cpu.fit({.max_epochs = 4, .num_gpus = 0, .progress = kSilent});
  EXPECT_EQ(on_cpu.net().parameters()[0].device(), Device());
  for (const int gpus : {1, 3}) {
    FitJob job({.validates = true});
    const History history = job.fit({.max_epochs = 4, .num_gpus = gpus, .progress = kSilent});
    EXPECT_EQ(job.net().parameters()[0].device(), Device("cuda:0"));
    for (const char* column : {"train_loss", "train_size", "validation_loss", "lr"})
      expect_near(history.column(column), expected.column(column), 1e-4);
    expect_near(job.parameters(), on_cpu.parameters(), 1e-4);
  }
  EXPECT_LT(*expected.column("train_loss").back(), *expected.column("train_loss").front());
}

TEST(Trainer, IsTheLoopThatOneWouldWrite) {
  FitJob job({});
  job.fit({.max_epochs = 2, .num_gpus = 0, .progress = kSilent});

  FitJob other({});
  GeneratorState generator{.seed = 46};
  const GeneratorGuard guard(generator);
  data::DataLoader loader(data::TensorDataset(randn({46, 4}), randn({46, 2})),
                          {.batch_size = 5, .shuffle = true, .seed = 3});
  optim::SGD optimizer(other.net().parameters(), {.lr = 0.05, .momentum = 0.9});
  optim::StepLR schedule(optimizer, {.step_size = 4, .gamma = 0.97});
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto [input, target] : loader) {
      optimizer.zero_grad();
      mse_loss(other.net()(input), target).backward();
      optimizer.step();
      schedule.step();
    }
  EXPECT_EQ(job.parameters(), other.parameters());
}

// An epoch has 10 batches, and the last one has one row: steps of 3, 3, 3 and 1 batches, then 3 validation batches.
TEST(Trainer, AccumulatedBatchesAreOneLargeBatch) {
  const TestDevices devices(2);
  for (const int gpus : {0, 2}) {
    FitJob small({.batch_size = 4}), large({.batch_size = 12});  // of 46 rows: 12, 12, 12 and 10 in batches of 4, 4, 2
    const History history = small.fit({.max_epochs = 3, .num_gpus = gpus, .accumulate = 3, .progress = kSilent});
    const History expected = large.fit({.max_epochs = 3, .num_gpus = gpus, .progress = kSilent});
    EXPECT_EQ(history.column("step"), expected.column("step"));
    expect_near(history.column("train_loss"), expected.column("train_loss"), 1e-5);
    expect_near(small.parameters(), large.parameters(), 1e-5);
  }
}

// The gradient: the parameters' change in one step of plain SGD with a learning rate of 0.05, divided by the rate.
std::vector<double> gradient_taken(TrainerOptions options) {
  FitJob job({.batch_size = 46, .momentum = 0});
  const std::vector<float> before = job.parameters();
  options.num_gpus = 0;
  options.progress = kSilent;
  job.fit(options);
  std::vector<double> gradient;
  for (std::size_t i = 0; i < before.size(); ++i) gradient.push_back((before[i] - job.parameters()[i]) / 0.05);
  return gradient;
}

TEST(Trainer, ClipsGradientsByNormOrByValue) {
  const auto norm = [](const std::vector<double>& x) {
    double squares = 0;
    for (const double value : x) squares += value * value;
    return std::sqrt(squares);
  };
  const auto greatest = [](const std::vector<double>& x) {
    double most = 0;
    for (const double value : x) most = std::max(most, std::abs(value));
    return most;
  };
  EXPECT_GT(norm(gradient_taken({})), 0.2);
  EXPECT_NEAR(norm(gradient_taken({.gradient_clip_val = 0.1})), 0.1, 1e-4);
  const auto by_value = gradient_taken({.gradient_clip_val = 0.01, .gradient_clip_algorithm = GradientClip::value});
  EXPECT_NEAR(greatest(by_value), 0.01, 1e-4);
  EXPECT_GT(norm(by_value), 0.02);
}

TEST(Trainer, WaitsForTheDevicesOnlyToReport) {
  for (const int gpus : {1, 2}) {
    SimulatedDevices devices({.count = gpus});
    nn::Linear net(4, 1);
    optim::SGD optimizer(net.parameters(), {.lr = 0.01});
    data::DataLoader loader(data::TensorDataset(randn({400, 4}), randn({400, 1})), {.batch_size = 2});
    const Trainer trainer({.gradient_clip_val = 1, .log_every = 50, .progress = kSilent});
    const History history = trainer.fit(net, loader,
                                        {.loss =
                                             [](auto& model, auto& batch, auto& metrics) {
                                               const Tensor loss =
                                                   mse_loss(model(std::get<0>(batch)), std::get<1>(batch));
                                               metrics.add("double", loss * 2);
                                               return loss;
                                             },
                                         .optimizer = optimizer});
    EXPECT_EQ(history.rows(), 4u);
    std::uint64_t waits = 0;
    for (int d = 0; d < gpus; ++d) waits += devices.counts(d).host_waits;
    EXPECT_EQ(waits, 4u) << "in 200 steps on " << gpus;
  }
}

struct Sample {
  Tensor image;
  std::optional<Tensor> mask;
  double weight = 1;
  auto members() { return lockstep::members("image", image, "mask", mask, "weight", weight); }
};

TEST(Trainer, TakesBatchesOfAnyStructureFromAnyRange) {
  const TestDevices devices(2);
  std::vector<Sample> batches;
  for (int i = 0; i < 3; ++i) batches.push_back({randn({4, 3}), ones({4, 1}), 0.5});
  nn::Linear net(3, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const History history = Trainer({.max_epochs = 2, .progress = kSilent})
                              .fit(net, batches,
                                   {.loss =
                                        [](auto& model, Sample& batch, auto&) {
                                          EXPECT_EQ(batch.image.device(), model.device());
                                          EXPECT_EQ(batch.mask->device(), model.device());
                                          return mean(model(batch.image) * *batch.mask) * batch.weight;
                                        },
                                    .optimizer = optimizer});
  EXPECT_EQ(*history.column("step").back(), 6);
  EXPECT_TRUE(batches[0].image.device().is_cpu());
}

TEST(Trainer, PreparesModelsAndBatches) {
  const TestDevices devices(2);
  const Trainer trainer({.devices = {"cuda:1", "cuda:0"}});
  nn::Linear net(3, 1);
  const Tensor weight = net.weight;
  auto model = trainer.prepare_model(net);
  EXPECT_EQ(weight.device(), Device("cuda:1"));
  EXPECT_EQ(model.device_count(), 2u);
  const auto [input, name] = trainer.prepare_batch(std::pair(ones({4, 3}), std::string("a")));
  EXPECT_EQ(input.device(), Device("cuda:1"));
  EXPECT_EQ(model(input).sizes(), (Shape{4, 1}));
}

struct Failure : nn::Module<Failure> {
  nn::Linear trained{2, 1}, frozen{2, 1};
  auto members() { return nn::members("trained", trained, "frozen", frozen); }
  Tensor forward(const Tensor& x) { return trained(x) + frozen(x); }
};

TEST(Trainer, LeavesTheModelUsableAfterAnError) {
  const TestDevices devices(2);
  for (const bool was_training : {true, false}) {
    Failure net;
    net.train(was_training);
    net.frozen.eval();
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    std::vector<Tensor> batches(3, ones({4, 2}));
    int calls = 0;
    const auto loss = [&](auto& model, auto& batch, auto&) {
      const Tensor output = model(batch);
      return ++calls == 5 ? mean(output + ones({3, 2}, {.device = output.device()}))
                          : mean(output);  // the fifth call validates
    };
    const Trainer trainer({.max_epochs = 1, .progress = kSilent});
    EXPECT_THROW(trainer.fit(net, batches, {.loss = loss, .optimizer = optimizer, .validation = batches}), ShapeError);
    EXPECT_EQ(net.trained.is_training(), was_training);
    EXPECT_FALSE(net.frozen.is_training());
    EXPECT_TRUE(grad_enabled());
    mean(net(batches[0].to("cuda:0"))).backward();
    optimizer.step();
    trainer.fit(net, batches, {.loss = loss, .optimizer = optimizer});
  }
}

TEST(Trainer, StopsWhereTheLossIsNotFiniteAndSavesNoCheckpointThen) {
  const auto run = [](TrainerOptions options) {
    std::vector<Tensor> batches(20, ones({4, 2}));
    nn::Linear net(2, 1);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    options.num_gpus = 0;
    options.progress = kSilent;
    int calls = 0;
    const auto loss = [&](auto& model, auto& batch, auto&) { return mean(model(batch)) * (++calls == 7 ? NAN : 1.); };
    return Trainer(options).fit(net, batches, {.loss = loss, .optimizer = optimizer});
  };
  EXPECT_EQ(thrown<Diverged>([&] { run({.log_every = 4}); }),
            "[trainer] expected a finite loss, got a mean of nan over steps 5 to 8");
  EXPECT_EQ(thrown<Diverged>([&] { run({}); }),
            "[trainer] expected a finite loss, got a mean of nan over steps 1 to 20");
  EXPECT_TRUE(std::isnan(*run({.log_every = 4, .stop_if_not_finite = false}).column("train_loss")[1]));

  const TemporaryFolder folder;
  nn::Linear net(2, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  data::DataLoader loader(data::TensorDataset(ones({10, 2})), {});
  int calls = 0;
  const auto loss = [&](auto& model, auto& batch, auto&) { return mean(model(batch)) * (++calls == 5 ? NAN : 1.); };
  EXPECT_THROW(Trainer({.num_gpus = 0, .checkpoint = {.folder = folder.path(), .every_steps = 2}, .progress = kSilent})
                   .fit(net, loader, {.loss = loss, .optimizer = optimizer}),
               Diverged);
  EXPECT_EQ(CheckpointFolder(folder.path()).latest(), 4);
}

TEST(Trainer, RecordsTheRateOfEachStep) {
  nn::Linear net(1, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 1});
  optim::ExponentialLR schedule(optimizer, {.gamma = 0.5});
  std::vector<Tensor> batches(2, ones({1, 1}));
  const auto loss = [](auto& model, Tensor& batch, auto&) { return sum(model(batch)); };
  const History history =
      Trainer({.max_epochs = 2, .num_gpus = 0, .log_every = 1, .progress = kSilent})
          .fit(net, batches,
               {.loss = loss, .optimizer = optimizer, .schedule = &schedule, .schedule_step = ScheduleStep::step});
  EXPECT_EQ(history.column("lr"), (History::Column{1, 0.5, 0.25, 0.125}));
}

// Half of the learning rate, three quarters, then the full rate, which halves with each step.
TEST(Trainer, WarmsUpByASequenceOfSchedules) {
  nn::Linear net(1, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 1});
  optim::SequentialLR schedule(optimizer, {.schedulers = {optim::LinearLROptions{.start_factor = 0.5, .total_iters = 2},
                                                          optim::ExponentialLROptions{.gamma = 0.5}},
                                           .milestones = {2}});
  std::vector<Tensor> batches(5, ones({1, 1}));
  const auto loss = [](auto& model, Tensor& batch, auto&) { return sum(model(batch)); };
  const History history =
      Trainer({.num_gpus = 0, .log_every = 1, .progress = kSilent})
          .fit(net, batches,
               {.loss = loss, .optimizer = optimizer, .schedule = &schedule, .schedule_step = ScheduleStep::step});
  EXPECT_EQ(history.column("lr"), (History::Column{0.5, 0.75, 1, 0.5, 0.25}));
}

TEST(Trainer, ReducesTheRateWhereAMetricStaysOnItsPlateau) {
  nn::Linear net(1, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 1});
  optim::ReduceLROnPlateau plateau(optimizer, {.factor = 0.5, .patience = 0});
  std::vector<Tensor> batches(1, ones({1, 1}));
  const std::vector<double> script = {5, 5, 4, 4, 4};
  std::size_t epoch = 0;
  const auto loss = [&](auto& model, Tensor& batch, auto& metrics) {
    if (!model.module().is_training()) metrics.add("score", tensor(script[epoch++]));
    return sum(model(batch));
  };
  const History history = Trainer({.max_epochs = 5, .num_gpus = 0, .progress = kSilent})
                              .fit(net, batches,
                                   {.loss = loss,
                                    .optimizer = optimizer,
                                    .plateau = &plateau,
                                    .plateau_monitor = "validation_score",
                                    .validation = batches});
  EXPECT_EQ(history.column("lr"), (History::Column{1, 1, 0.5, 0.5, 0.25}));
  EXPECT_EQ(optimizer.lr(), 0.125);
}

TEST(Trainer, RecordsGraphsInTrainingOnly) {
  nn::Sequential net(nn::Linear(2, 1));
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  data::DataLoader loader(data::TensorDataset(ones({4, 2}), ones({4, 1})), {.batch_size = 2});
  std::vector<bool> in_training, in_validation;
  Trainer({.num_gpus = 0, .progress = kSilent})
      .fit(net, loader,
           {.loss =
                [&](auto& model, auto& batch, auto&) {
                  auto& [input, target] = batch;
                  (net.is_training() ? in_training : in_validation).push_back(grad_enabled());
                  return mse_loss(model(input), target);
                },
            .optimizer = optimizer,
            .validation = loader});
  EXPECT_EQ(in_training, std::vector<bool>(2, true));
  EXPECT_EQ(in_validation, std::vector<bool>(2, false));
}

TEST(Trainer, ReportsPlainLinesWhereThereIsNoTerminal) {
  std::ostringstream out;
  std::vector<Tensor> batches(5, ones({4, 2}));
  nn::Linear net(2, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 0});
  int calls = 0;
  const auto loss = [&](auto& model, auto& batch, auto& metrics) {
    metrics.add("call", tensor(double(++calls)));
    return mean(model(batch)) * 0. + 0.5;
  };
  Trainer({.max_epochs = 2, .num_gpus = 0, .log_every = 2, .progress = {.out = &out}})
      .fit(net, batches, {.loss = loss, .optimizer = optimizer, .validation = batches});
  EXPECT_EQ(out.str(),
            "epoch 1/2, step 2: train_loss 0.5, train_call 1.5\n"
            "epoch 1/2, step 4: train_loss 0.5, train_call 3.5\n"
            "epoch 1/2, step 5: train_loss 0.5, train_call 3, validation_loss 0.5, validation_call 8\n"
            "epoch 2/2, step 6: train_loss 0.5, train_call 11\n"
            "epoch 2/2, step 8: train_loss 0.5, train_call 12.5\n"
            "epoch 2/2, step 10: train_loss 0.5, train_call 13, validation_loss 0.5, validation_call 18\n");
}

// The line of a step is printed after the next step's loss was enqueued, so that the devices have work meanwhile.
TEST(Trainer, ReadsALossOneStepLate) {
  const TestDevices devices(2);
  std::ostringstream out;
  std::vector<Tensor> batches(4, ones({4, 2}));
  nn::Linear net(2, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 0});
  int calls = 0;
  const auto loss = [&](auto& model, auto& batch, auto&) {
    const Tensor half = mean(model(batch)) * 0. + 0.5;
    out << '[' << ++calls << ']';
    return half;
  };
  Trainer({.log_every = 1, .progress = {.out = &out}}).fit(net, batches, {.loss = loss, .optimizer = optimizer});
  EXPECT_EQ(out.str(),
            "[1][2]epoch 1/1, step 1: train_loss 0.5\n"
            "[3]epoch 1/1, step 2: train_loss 0.5\n"
            "[4]epoch 1/1, step 3: train_loss 0.5\n"
            "epoch 1/1, step 4: train_loss 0.5\n");
}

// A module has the replicas of the Prepared used last; the others make theirs again when they are used.
TEST(Prepared, TwoOfOneModuleTakeTurns) {
  const TestDevices devices(2);
  nn::Linear net(3, 1);
  net.to("cuda:0");
  const Tensor x = ones({4, 3}, {.device = "cuda:0"});
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const auto expect_step = [&](Prepared<nn::Linear>& model) {
    optimizer.zero_grad();
    sum(model(x)).backward();
    EXPECT_EQ(net.bias->grad().to(Device()).item<float>(), 4);
    optimizer.step();
  };
  Prepared<nn::Linear> first(net, try_all_gpus());
  expect_step(first);
  const Tensor before = sum(first(x));
  {
    Prepared<nn::Linear> second(net, try_all_gpus());
    EXPECT_THROW(before.backward(), AutogradError);
    expect_step(second);
    expect_step(first);
    expect_step(second);
  }
  expect_step(first);
  first = Prepared<nn::Linear>(net, try_all_gpus());
  expect_step(first);
}

TEST(Trainer, GivesModesBackToAModuleThatHasGrown) {
  nn::Sequential net(nn::Linear(2, 1), nn::Dropout(0.5));
  net.eval();
  optim::SGD optimizer(net.parameters(), {.lr = 0});
  std::vector<Tensor> batches(3, ones({4, 2}));
  const auto loss = [](auto& model, auto& batch, auto&) {
    model.module().push_back(nn::ReLU());
    return mean(model(batch));
  };
  Trainer({.num_gpus = 0, .progress = kSilent}).fit(net, batches, {.loss = loss, .optimizer = optimizer});
  EXPECT_EQ(net.size(), 5u);
  EXPECT_FALSE(net.is_training());
  EXPECT_FALSE(net[1].is_training());
}

}  // namespace
}  // namespace lockstep::train
