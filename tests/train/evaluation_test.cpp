// Trainer::evaluate() and predict() equal a loop over the batches, on any devices. Criteria and metrics by name.
#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/nn/losses.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/join.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/train/criterion.h>

#include "support/in_processes.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::in_processes;
using testing::kSilent;
using testing::thrown;

struct Rows {
  Tensor input = randn({23, 4}), target = randint(0, 3, {23});
  auto loader(std::int64_t batch_size, const data::BatchShare& share = {}) const {
    return data::DataLoader(data::TensorDataset(input, target), {.batch_size = batch_size, .seed = 1, .share = share});
  }
};

std::vector<float> floats(const Tensor& tensor) { return tensor.detach().to(Device()).to_vector<float>(); }

TEST(Evaluate, GivesMeansOverAllRows) {
  const TestDevices devices(3);
  manual_seed(1);
  const Rows rows;
  nn::Sequential net(nn::Linear(4, 3), nn::Dropout(0.5));
  net.eval();
  const auto output = floats(net(rows.input));
  const auto target = rows.target.to_vector<std::int64_t>();
  double loss = 0, right = 0;
  for (std::size_t i = 0; i < 23; ++i) {
    const float* const y = &output[3 * i];
    loss += std::log(std::exp(double(y[0])) + std::exp(double(y[1])) + std::exp(double(y[2]))) - y[target[i]];
    right += std::max_element(y, y + 3) - y == target[i];
  }
  net.train();
  for (const int gpus : {0, 1, 3}) {
    auto loader = rows.loader(5);
    const auto means = Trainer({.num_gpus = gpus, .progress = kSilent})
                           .evaluate(net, loader, criterion(nn::CrossEntropyLoss(), {"accuracy"}));
    EXPECT_EQ(means.size(), 2u);
    EXPECT_NEAR(means.at("loss"), loss / 23, 1e-5);
    EXPECT_NEAR(means.at("accuracy"), right / 23, 1e-6);
    EXPECT_TRUE(net.is_training());
    EXPECT_TRUE(grad_enabled());
  }
}

TEST(Evaluate, GivesTheSameInSeveralProcesses) {
  const SimulatedDevices devices({.count = 4});
  manual_seed(1);
  const Rows rows;
  const nn::Linear net(4, 3);
  const auto means = [&](const World& world, std::vector<Device> on) {
    TrainerOptions options = {.devices = std::move(on), .progress = kSilent};
    options.parallel.world = world;
    options.parallel.loss = ProcessLoss::sum;
    const Trainer trainer(options);
    nn::Linear own(net);
    auto loader = rows.loader(5, trainer.share());
    return trainer.evaluate(own, loader, criterion(nn::CrossEntropyLoss(), {"accuracy"}));
  };
  const auto one = means(World(), {"cuda:0", "cuda:1", "cuda:2", "cuda:3"});
  std::vector<std::map<std::string, double>> each(4);  // the last batch has three rows, so one process has none
  const auto failures = in_processes(4, [&](const World& world) {
    each[std::size_t(world.rank().value())] = means(world, {Device::cuda(world.rank().value())});
  });
  for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
  for (const auto& got : each) {
    EXPECT_EQ(got, each[0]);
    EXPECT_NEAR(got.at("loss"), one.at("loss"), 1e-6);
    EXPECT_NEAR(got.at("accuracy"), one.at("accuracy"), 1e-6);
  }
}

TEST(Evaluate, RefusesNoBatchAndNoLoss) {
  nn::Linear net(4, 3);
  std::vector<std::tuple<Tensor, Tensor>> none;
  const Trainer trainer({.num_gpus = 0, .progress = kSilent});
  EXPECT_EQ(thrown<InvalidArgument>([&] { trainer.evaluate(net, none, criterion(nn::CrossEntropyLoss())); }),
            "[trainer] expected a loader of at least one batch, got none");
  EXPECT_EQ(thrown<InvalidArgument>([&] { trainer.evaluate(net, none, nullptr); }),
            "[trainer] expected a loss, got none");
}

TEST(Predict, JoinsTheOutputsOfAllBatchesOnTheCpu) {
  const TestDevices devices(3);
  manual_seed(1);
  const Rows rows;
  nn::Sequential net(nn::Linear(4, 3), nn::Dropout(0.5));
  net.eval();
  const auto expected = floats(net(rows.input));
  net.train();
  for (const int gpus : {0, 1, 3}) {
    const Trainer trainer({.num_gpus = gpus, .progress = kSilent});
    auto loader = rows.loader(5);
    const Tensor output = trainer.predict(net, loader);
    EXPECT_TRUE(output.device().is_cpu());
    EXPECT_FALSE(output.requires_grad());
    ASSERT_EQ(output.sizes(), (Shape{23, 3}));
    const auto got = floats(output);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
    EXPECT_TRUE(net.is_training());

    std::vector<Tensor> batches = {rows.input.narrow(0, 0, 20), rows.input.narrow(0, 20, 3)};  // not tuples
    const auto of_tensors = floats(trainer.predict(net, batches));
    const double tolerance =
        gpus == 0 || are_simulated() ? 0 : 1e-6;  // on a real GPU, products of other sizes round differently
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(of_tensors[i], got[i], tolerance);
    const auto [twice, sums] = trainer.predict(net, batches, [](auto& model, const Tensor& batch) {
      const Tensor y = model(batch);
      return std::pair(y * 2., sum(y, {1}));
    });
    EXPECT_EQ(twice.sizes(), (Shape{23, 3}));
    EXPECT_EQ(sums.sizes(), (Shape{23}));
    EXPECT_EQ(floats(twice)[68], 2 * of_tensors[68]);
  }
}

TEST(Predict, RefusesSeveralProcessesAndNoBatch) {
  const SimulatedDevices devices({.count = 2});
  const auto messages = testing::thrown_in_processes<InvalidArgument>(2, [&](const World& world) {
    TrainerOptions options = {.devices = {Device::cuda(world.rank().value())}};
    options.parallel.world = world;
    nn::Linear net(4, 3);
    std::vector<Tensor> batches = {ones({2, 4})};
    Trainer(options).predict(net, batches);
  });
  for (const std::string& message : messages)
    EXPECT_EQ(
        message,
        "[trainer] expected a single process for predict(), got 2, each of which has only its own rows: predict with a "
        "Trainer without a world");
  nn::Linear net(4, 3);
  std::vector<Tensor> none;
  EXPECT_THROW(Trainer({.num_gpus = 0}).predict(net, none), InvalidArgument);
}

TEST(NamedMetrics, AreWhatTheirNamesSay) {
  const Tensor logits = tensor({1., 2., 0., 5., 4., 3.}).view({2, 3});
  EXPECT_EQ(accuracy(logits, tensor({1, 2})).item<double>(), 0.5);
  EXPECT_EQ(metric_by_name("accuracy").of(logits, tensor({1, 0})).item<double>(), 1);
  const Tensor y = tensor({1., -2., 3., -4.}), t = tensor({1., 0., 0., 1.});
  EXPECT_EQ(metric_by_name("binary_accuracy").of(y, t).item<double>(), 0.5);
  EXPECT_EQ(metric_by_name("mae").of(y, t).item<double>(), (0 + 2 + 3 + 5) / 4.);
  EXPECT_EQ(metric_by_name("mean_squared_error").of(y, t).item<double>(), (0 + 4 + 9 + 25) / 4.);
  EXPECT_THROW(mean_absolute_error(ones({3, 1}), ones({3})), ShapeError);
  EXPECT_THROW(accuracy(logits, ones({2, 3})), ShapeError);
  const auto message = thrown<InvalidArgument>([] { criterion(nn::MSELoss(), {"acuracy"}); });
  EXPECT_NE(message.find("got \"acuracy\""), std::string::npos) << message;
}

TEST(Criterion, TrainsWhatTheLossWrittenOutTrains) {
  const TestDevices devices(2);
  const auto trained = [](const auto& loss) {
    manual_seed(1);
    const Rows rows;
    nn::Linear net(4, 3);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    auto loader = rows.loader(5);
    const History history = Trainer({.max_epochs = 2, .progress = kSilent})
                                .fit(net, loader, {.loss = loss, .optimizer = optimizer, .validation = loader});
    return std::pair(floats(net.weight), testing::columns_of(history));
  };
  const auto expected = trained([](auto& model, auto& batch, auto& metrics) {
    const Tensor output = model(std::get<0>(batch));
    metrics.add("accuracy", mean(eq(argmax(output, 1), std::get<1>(batch)).to(kFloat32)));
    return mean_cross_entropy(output, std::get<1>(batch));
  });
  EXPECT_EQ(trained(criterion(nn::CrossEntropyLoss(), {"accuracy"})), expected);
  EXPECT_EQ(trained(criterion(cross_entropy, {"accuracy"})), expected);
  EXPECT_TRUE(expected.second.contains("validation_accuracy"));
}

}  // namespace
}  // namespace lockstep::train
