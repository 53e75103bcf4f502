// The learning-rate range test records the losses of plain SGD, and restores everything.
#include <lockstep/train/find_lr.h>

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include <lockstep/ops/reduce.h>
#include <lockstep/ops/weighted_mean.h>
#include <lockstep/optim/adam.h>
#include <lockstep/tensor/creation.h>

#include "io/memory_source.h"
#include "support/in_processes.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::train {
namespace {

using testing::in_processes;
using testing::kSilent;
using testing::same;
using testing::thrown;

// loss = w^2 / 2: a step of SGD multiplies w by 1 - lr.
struct Parabola : nn::Module<Parabola> {
  nn::Parameter w{full({1}, 3., {.dtype = kFloat64})};
  auto members() { return nn::members("w", w); }
  Tensor forward(const Tensor& x) { return w * w * 0.5 + x * 0.; }
};

LRFinder find_on_parabola(const FindLROptions& how, Parabola& net, const std::vector<double>& weights = {1, 1, 1}) {
  optim::SGD optimizer(net.parameters(), {.lr = 0.7});
  std::vector<Tensor> batches;
  for (const double weight : weights) batches.push_back(full({1}, weight, {.dtype = kFloat64}));
  const LRFinder found =
      Trainer({.num_gpus = 0, .progress = kSilent})
          .find_lr(net, batches,
                   {.loss = [](auto& model, auto& batch,
                               auto&) { return WeightedMean(sum(model(batch) * batch), sum(batch)); },
                    .optimizer = optimizer},
                   how);
  EXPECT_EQ(optimizer.lr(), 0.7);
  return found;
}

// Batches of weight 0 have no loss: they take a step's rate, but no row of the table.
TEST(FindLR, TellsTheLossAtEachRate) {
  for (const std::vector<double>& weights : {std::vector{1., 1., 1.}, std::vector{0., 1., 1.}}) {
    Parabola net;
    const LRFinder found = find_on_parabola({.min_lr = 1e-4, .max_lr = 7, .num_training = 71}, net, weights);
    EXPECT_EQ(net.w.detach().to_vector<double>(), std::vector<double>{3});
    double w = 3, average = 0, least = 0;
    std::vector<double> smoothed;
    for (std::size_t step = 0; step < 71; ++step) {
      if (weights[step % 3] == 0) continue;
      const double lr = 1e-4 * std::pow(7e4, double(step) / 70), loss = w * w / 2;
      const std::size_t row = smoothed.size();
      average = 0.98 * average + 0.02 * loss;
      smoothed.push_back(average / (1 - std::pow(0.98, double(row + 1))));
      ASSERT_LT(row, found.table.rows());
      EXPECT_NEAR(*found.table.column("lr")[row], lr, 1e-12 * lr);
      EXPECT_NEAR(*found.table.column("loss")[row], loss, 1e-9 * loss) << row;
      EXPECT_NEAR(*found.table.column("smoothed_loss")[row], smoothed[row], 1e-9 * smoothed[row]);
      if (row > 0 && smoothed[row] > 4 * least) break;
      least = row == 0 ? smoothed[row] : std::min(least, smoothed[row]);
      w *= 1 - lr;
    }
    EXPECT_EQ(found.table.rows(), smoothed.size());
    std::size_t steepest = 0;  // by central differences, within the range that counts
    for (std::size_t i = 11; i + 2 < smoothed.size(); ++i)
      if (steepest == 0 || smoothed[i + 1] - smoothed[i - 1] < smoothed[steepest + 1] - smoothed[steepest - 1])
        steepest = i;
    ASSERT_TRUE(found.suggestion);
    EXPECT_NEAR(*found.suggestion, *found.table.column("lr")[steepest], 1e-12);
  }
}

TEST(FindLR, EndsWhereTheLossRisesOrIsNotFinite) {
  Parabola net;
  const LRFinder risen = find_on_parabola({.min_lr = 1.5, .max_lr = 1e3, .num_training = 100, .beta = 0}, net);
  EXPECT_LT(risen.table.rows(), 50u);
  const LRFinder broken =
      find_on_parabola({.min_lr = 1.5, .max_lr = 1e30, .num_training = 100, .early_stop_threshold = 0, .beta = 0}, net);
  EXPECT_LT(broken.table.rows(), 100u);
  for (const auto& loss : broken.table.column("loss")) EXPECT_TRUE(std::isfinite(*loss));
  EXPECT_EQ(net.w.detach().to_vector<double>(), std::vector<double>{3});
}

TEST(FindLR, SuggestsNothingWhereNothingFalls) {
  Parabola net;
  EXPECT_FALSE(
      find_on_parabola({.min_lr = 3, .max_lr = 4, .num_training = 40, .early_stop_threshold = 0}, net).suggestion);
  EXPECT_FALSE(find_on_parabola({.num_training = 5}, net).suggestion) << "too few";
}

TEST(FindLR, LeavesModelOptimizerLoaderAndRandomNumbersAsTheyWere) {
  const TestDevices devices(2);
  for (const Precision precision : {Precision::float32, Precision::float16}) {
    manual_seed(5);
    nn::Sequential net(nn::Linear(4, 8), nn::SyncBatchNorm(8), nn::Dropout(0.3), nn::Linear(8, 2));
    net[2].eval();
    optim::Adam optimizer(net.parameters(), {.lr = 0.01});
    data::DataLoader loader(data::TensorDataset<2>(randn({46, 4}), randn({46, 2})),
                            {.batch_size = 6, .shuffle = true, .seed = 3});
    const Trainer trainer({.accumulate = 2, .precision = precision, .progress = kSilent});
    const auto loss = [](auto& model, auto& batch, auto&) {
      return mse_loss(model(std::get<0>(batch)), std::get<1>(batch));
    };
    const FindLROptions how = {.num_training = 20};
    const auto find = [&] { return trainer.find_lr(net, loader, {.loss = loss, .optimizer = optimizer}, how); };
    const auto expect_kept = [&](const auto& work) {
      const auto copy_of = [](const StateDict& state) {
        StateDict copy;
        for (const auto& [key, tensor] : state) copy.add(key, tensor.detach().clone());
        return copy;
      };
      const StateDict model = copy_of(net.state_dict()), state = copy_of(optimizer.state_dict());
      const auto at = loader.state();
      const auto random = current_generator();
      work();
      EXPECT_TRUE(same(net.state_dict(), model));
      EXPECT_TRUE(same(optimizer.state_dict(), state));
      EXPECT_EQ(loader.state(), at);
      EXPECT_EQ(current_generator(), random);
      EXPECT_TRUE(net[1].is_training());
      EXPECT_FALSE(net[2].is_training());
    };
    net.to("cuda:0");
    expect_kept(find);
    trainer.fit(net, loader, {.loss = loss, .optimizer = optimizer});  // so that the optimizer has state
    const auto first = [&] {
      LRFinder found;
      expect_kept([&] { found = find(); });
      return found.table.csv();
    };
    const std::string csv = first();
    EXPECT_EQ(first(), csv);
    int calls = 0;
    const auto fails = [&](auto& model, auto& batch, auto&) {
      if (++calls == 7) throw std::runtime_error("power failure");
      return mean(model(std::get<0>(batch)));
    };
    expect_kept([&] {
      EXPECT_THROW(trainer.find_lr(net, loader, {.loss = fails, .optimizer = optimizer}, how), std::runtime_error);
    });
  }
}

TEST(FindLR, FindsTheSameInSeveralProcesses) {
  const SimulatedDevices devices({.count = 2});
  const auto found = [](std::int64_t rows, const World& world, std::vector<Device> on) {
    TrainerOptions options = {.devices = std::move(on), .progress = kSilent};
    options.parallel.world = world;
    options.parallel.loss = ProcessLoss::sum;
    const Trainer trainer(options);
    GeneratorState generator{.seed = 7};
    const GeneratorGuard guard(generator);
    nn::Linear net(4, 2);
    optim::SGD optimizer(net.parameters(), {.lr = 0.01});
    data::DataLoader loader(data::TensorDataset<2>(randn({rows, 4}), randn({rows, 2})),
                            {.batch_size = 8, .seed = 3, .share = trainer.share()});
    return trainer.find_lr(net, loader,
                           {.loss =
                                [](auto& model, auto& batch, auto&) {
                                  const Tensor error = model(std::get<0>(batch)) - std::get<1>(batch);
                                  return sum(error * error) / double(model.batch_rows());
                                },
                            .optimizer = optimizer},
                           {.min_lr = 1e-4, .max_lr = 10, .num_training = 30});
  };
  for (const std::int64_t rows : {40, 41}) {  // process 1 has no rows of the last batch
    const LRFinder one = found(rows, World(), {"cuda:0", "cuda:1"});
    std::vector<LRFinder> two(2);
    const auto failures = in_processes(2, [&](const World& world) {
      two[std::size_t(world.rank().value())] = found(rows, world, {Device::cuda(world.rank().value())});
    });
    for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
    EXPECT_EQ(two[0].table.csv(), two[1].table.csv());
    EXPECT_EQ(two[0].suggestion, two[1].suggestion);
    ASSERT_EQ(two[0].table.rows(), one.table.rows());
    for (std::size_t row = 0; row < one.table.rows(); ++row) {
      const double expected = *one.table.column("loss")[row];
      EXPECT_NEAR(*two[0].table.column("loss")[row], expected, 1e-5 * expected);
    }
  }
}

TEST(FindLR, RefusesWhatDoesNotFit) {
  Parabola net;
  EXPECT_EQ(thrown<InvalidArgument>([&] { find_on_parabola({.min_lr = 0}, net); }),
            "[find_lr] expected min_lr above 0, got 0");
  EXPECT_EQ(thrown<InvalidArgument>([&] { find_on_parabola({.min_lr = 1, .max_lr = 1}, net); }),
            "[find_lr] expected max_lr above min_lr, got 1");
  EXPECT_EQ(thrown<InvalidArgument>([&] { find_on_parabola({.num_training = 1}, net); }),
            "[find_lr] expected num_training of at least 2, got 1");
}

}  // namespace
}  // namespace lockstep::train
