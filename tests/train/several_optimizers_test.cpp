// Several losses with an optimizer each, in one Trainer: trains what a hand-written loop trains, on any devices, and
// resumes bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <lockstep/nn/functional.h>
#include <lockstep/optim/adam.h>
#include <lockstep/tensor/creation.h>

#include "io/memory_source.h"
#include "support/in_processes.h"
#include "support/repetitions.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::columns_of;
using testing::in_processes;
using testing::kSilent;
using testing::same;
using testing::TemporaryFolder;
using testing::thrown;

enum class Part : std::uint8_t { generate, judge };

// A generator and a discriminator in one module; forward() runs either, on all devices.
struct Adversaries : nn::Module<Adversaries> {
  nn::Sequential generator{nn::Linear(2, 6), nn::ReLU(), nn::Linear(6, 3)};
  nn::Sequential discriminator{nn::Linear(3, 6), nn::ReLU(), nn::Linear(6, 1)};
  auto members() { return nn::members("generator", generator, "discriminator", discriminator); }
  Tensor forward(const Tensor& x, Part part) { return part == Part::generate ? generator(x) : discriminator(x); }
};

class GanJob {
 public:
  explicit GanJob(std::int64_t fail_in = -1, const data::BatchShare& share = {}, ProcessLoss kind = ProcessLoss::sum)
      : fail_in_(fail_in), kind_(kind), loader_(make_loader(share)) {}

  Adversaries net = seeded();
  optim::Adam judge{net.discriminator.parameters(), {.lr = 0.01}};
  optim::SGD generate{net.generator.parameters(), {.lr = 0.05, .momentum = 0.5}};
  optim::StepLR schedule{generate, {.step_size = 1, .gamma = 0.5}};
  std::int64_t calls = 0;

  History fit(const TrainerOptions& options) {
    return Trainer(options).fit(net, loader_,
                                {.loss = [this](auto& model, auto& batch, auto&) { return judged(model, batch); },
                                 .optimizer = judge,
                                 .also = {{.name = "generator",
                                           .loss =
                                               [this](auto& model, auto& batch, auto&) {
                                                 check_call();
                                                 const Tensor noise = std::get<1>(batch);
                                                 return part(model, real_loss(model, model(noise, Part::generate)),
                                                             noise);
                                               },
                                           .optimizer = generate,
                                           .schedule = &schedule}}});
  }

  /// The same training as a hand-written loop.
  void loop(std::int64_t epochs) {
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
      for (auto& [real, noise] : loader_) {
        judge.zero_grad();
        (nn::binary_cross_entropy_with_logits(net.discriminator(real), ones({real.size(0), 1})) +
         nn::binary_cross_entropy_with_logits(net.discriminator(net.generator(noise).detach()),
                                              zeros({real.size(0), 1})))
            .backward();
        judge.step();
        generate.zero_grad();
        nn::binary_cross_entropy_with_logits(net.discriminator(net.generator(noise)), ones({real.size(0), 1}))
            .backward();
        generate.step();
      }
      schedule.step();
    }
  }

  std::vector<float> parameters() const {
    std::vector<float> all;
    for (const Tensor& parameter : net.parameters())
      for (const float value : parameter.detach().to_vector<float>()) all.push_back(value);
    return all;
  }

 private:
  using Loader = data::DataLoader<data::TensorDataset<2>>;

  static Adversaries seeded() {
    manual_seed(1);
    return Adversaries();
  }
  static Loader make_loader(const data::BatchShare& share) {
    GeneratorState generator{.seed = 2};
    const GeneratorGuard guard(generator);
    return Loader(data::TensorDataset<2>(randn({22, 3}) + 2., randn({22, 2})),
                  {.batch_size = 6, .shuffle = true, .seed = 3, .share = share});
  }

  void check_call() {
    if (calls++ == fail_in_) throw std::runtime_error("power failure");
  }
  static Tensor real_loss(auto& model, const Tensor& points) {
    const Tensor y = model(points, Part::judge);
    return nn::binary_cross_entropy_with_logits(y, ones({y.size(0), 1}, {.device = y.device()}));
  }
  Tensor judged(auto& model, auto& batch) {
    check_call();
    auto& [real, noise] = batch;
    const Tensor caught = model(model(noise, Part::generate).detach(), Part::judge);
    const Tensor fake = zeros({caught.size(0), 1}, {.device = caught.device()});
    return part(model, real_loss(model, real) + nn::binary_cross_entropy_with_logits(caught, fake), real);
  }
  // This process's part of a sum for ProcessLoss::sum, otherwise the whole loss.
  Tensor part(auto& model, const Tensor& loss, const Tensor& rows) const {
    return kind_ == ProcessLoss::mean ? loss : loss * (double(rows.size(0)) / double(model.batch_rows()));
  }

  std::int64_t fail_in_;
  ProcessLoss kind_;
  Loader loader_;
};

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4 * (1 + std::abs(expected[i])));
}

TEST(SeveralOptimizers, TrainWhatTheLoopWrittenOutTrains) {
  const TestDevices devices(3);
  GanJob expected;
  expected.loop(3);
  for (const int gpus : {0, 1, 3}) {
    GanJob job;
    const History history = job.fit({.max_epochs = 3, .num_gpus = gpus, .progress = kSilent});
    if (gpus == 0)
      EXPECT_EQ(job.parameters(), expected.parameters());
    else
      expect_near(job.parameters(), expected.parameters());
    EXPECT_EQ(history.column("step"), (History::Column{4, 8, 12}));
    EXPECT_EQ(history.column("train_generator_loss").size(), 3u);
    EXPECT_EQ(job.generate.lr(), 0.05 / 8);
    EXPECT_EQ(job.judge.lr(), 0.01);
  }
}

TEST(SeveralOptimizers, AccumulateAndClipEachForItself) {
  GanJob clipped;
  const std::vector<float> before = clipped.parameters();  // the first 39 are the generator's
  clipped.fit({.max_epochs = 1, .num_gpus = 0, .gradient_clip_val = 1e-12, .accumulate = 4, .progress = kSilent});
  const std::vector<float> after = clipped.parameters();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 39, after.begin()))
      << "steps of SGD are too small to be seen";
  EXPECT_NE(after, before) << "steps of Adam are not";
  EXPECT_EQ(clipped.calls, 8);
}

TEST(SeveralOptimizers, ResumedAfterAnyInterruptionContinueBitForBit) {
  const TestDevices devices(2);
  for (const Precision precision : {Precision::float32, Precision::float16}) {
    const auto options = [=](const TemporaryFolder& folder) {
      return TrainerOptions{.max_epochs = 3,
                            .precision = precision,
                            .log_every = 3,
                            .checkpoint = {.folder = folder.path(), .every_steps = 2, .resume = true},
                            .progress = kSilent};
    };
    const TemporaryFolder whole_folder;
    GanJob whole;
    const History expected = whole.fit(options(whole_folder));
    for (std::int64_t fail_in = 1; fail_in < whole.calls; fail_in += 3 * testing::kStride) {
      const TemporaryFolder folder;
      EXPECT_THROW(GanJob(fail_in).fit(options(folder)), std::runtime_error);
      GanJob resumed;
      EXPECT_EQ(columns_of(resumed.fit(options(folder))), columns_of(expected)) << fail_in;
      EXPECT_EQ(resumed.parameters(), whole.parameters()) << fail_in;
      EXPECT_TRUE(same(resumed.judge.state_dict(), whole.judge.state_dict())) << fail_in;
      EXPECT_TRUE(same(resumed.generate.state_dict(), whole.generate.state_dict())) << fail_in;
    }
  }
}

TEST(SeveralOptimizers, TrainTheSameInSeveralProcesses) {
  const SimulatedDevices devices({.count = 2});
  GanJob expected;
  expected.fit({.max_epochs = 2, .progress = kSilent});
  std::vector<std::vector<float>> ends(2);
  for (const ProcessLoss kind : {ProcessLoss::mean, ProcessLoss::sum}) {
    const auto failures = in_processes(2, [&](const World& world) {
      TrainerOptions options = {.max_epochs = 2, .devices = {Device::cuda(world.rank().value())}, .progress = kSilent};
      options.parallel.world = world;
      options.parallel.loss = kind;
      GanJob job(-1, Trainer(options).share(), kind);
      job.fit(options);
      ends[std::size_t(world.rank().value())] = job.parameters();
    });
    for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
    EXPECT_EQ(ends[0], ends[1]);
    expect_near(ends[0], expected.parameters());
  }
}

TEST(SeveralOptimizers, RefuseWhatDoesNotFit) {
  nn::Linear net(2, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1}), second(net.parameters(), {.lr = 0.1});
  optim::StepLR schedule(optimizer, {.step_size = 1});
  optim::ReduceLROnPlateau plateau(optimizer);
  std::vector<Tensor> batches(2, ones({4, 2}));
  const auto loss = [](auto& model, auto& batch, auto&) { return mean(model(batch)); };
  using Options = FitOptions<nn::Linear, Tensor>;
  const auto refusal = [&](const Options& options) {
    return thrown<InvalidArgument>([&] { Trainer({.num_gpus = 0, .progress = kSilent}).fit(net, batches, options); });
  };
  for (const std::string name : {"", "a.b"})
    EXPECT_EQ(refusal({.loss = loss, .optimizer = optimizer, .also = {{name, loss, second}}}),
              "[trainer] expected different names without a dot in .also, got \"" + name + '"');
  EXPECT_EQ(refusal({.loss = loss, .optimizer = optimizer, .also = {{"a", nullptr, second}}}),
            "[trainer] expected a loss, got none");
  EXPECT_EQ(refusal({.loss = loss, .optimizer = optimizer, .also = {{"a", loss, second, &schedule}}}),
            "[trainer] the schedule was made for another optimizer. Make it from the one in .optimizer");
  EXPECT_EQ(refusal({.loss = loss, .optimizer = optimizer, .schedule = &schedule, .plateau = &plateau}),
            "[trainer] expected .schedule or .plateau, got both, and each sets the learning rate: give one");
  EXPECT_EQ(
      refusal({.loss = loss, .optimizer = optimizer, .plateau = &plateau}),
      "[trainer] .plateau_monitor is validation_loss, but fit() was given no .validation loader. Give one, or monitor "
      "a metric of training");
  EXPECT_EQ(refusal({.loss = loss, .optimizer = second, .plateau = &plateau}),
            "[trainer] the plateau was made for another optimizer. Make it from the one in .optimizer");
  EXPECT_EQ(refusal({.loss = loss,
                     .optimizer = optimizer,
                     .plateau = plateau,
                     .plateau_monitor = "validation_accuracy",
                     .validation = batches}),
            "[trainer] expected a plateau with .mode = optim::MetricMode::max to monitor validation_accuracy, got the "
            "other mode");
}

TEST(SeveralOptimizers, OptionsReferToObjectsOrTakePointers) {
  nn::Linear net(2, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  optim::StepLR schedule(optimizer, {.step_size = 1, .gamma = 0.5});
  std::vector<Tensor> batches(2, ones({4, 2}));
  const auto loss = [](auto& model, auto& batch, auto&) { return mean(model(batch)); };
  const Trainer trainer({.num_gpus = 0, .progress = kSilent});
  trainer.fit(net, batches, {.loss = loss, .optimizer = optimizer, .schedule = schedule});
  EXPECT_EQ(optimizer.lr(), 0.05);
  trainer.fit(net, batches, {.loss = loss, .optimizer = &optimizer, .schedule = &schedule});
  EXPECT_EQ(optimizer.lr(), 0.025);
  trainer.fit(net, batches, {.loss = loss, .optimizer = optimizer, .schedule = nullptr});
  EXPECT_EQ(optimizer.lr(), 0.025);
  EXPECT_EQ(thrown<InvalidArgument>([&] { trainer.fit(net, batches, {.loss = loss, .optimizer = nullptr}); }),
            "[trainer] expected an optimizer, got a null pointer");
}

}  // namespace
}  // namespace lockstep::train
