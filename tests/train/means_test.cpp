// A Trainer weights the means of a step's batches, of devices and of processes correctly: it trains and reports what
// one CPU does with a single batch of all their rows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/nn/layers.h>
#include <lockstep/nn/losses.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/weighted_mean.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/criterion.h>
#include <lockstep/train/trainer.h>

#include "support/in_processes.h"
#include "support/thrown.h"
#include "train/fit_job.h"

namespace lockstep::means {
namespace {

using namespace train;
using testing::in_processes;
using testing::kSilent;

using Pair = std::tuple<Tensor, Tensor>;

struct Grid {
  int processes;
  int devices;
};
std::string name_of(const Grid& grid) { return std::to_string(grid.processes) + " x " + std::to_string(grid.devices); }
constexpr Grid kGrids[] = {{1, 1}, {1, 2}, {1, 3}, {1, 5}, {2, 1}, {2, 2}, {3, 1}};

// Parameters after training, and the reported metrics.
struct Trained {
  std::vector<float> parameters;
  std::map<std::string, double> reported;
};

void expect_close(const Trained& got, const Trained& expected) {
  ASSERT_EQ(got.parameters.size(), expected.parameters.size());
  for (std::size_t i = 0; i < got.parameters.size(); ++i)
    EXPECT_NEAR(got.parameters[i], expected.parameters[i], 2e-6 * (1 + std::abs(expected.parameters[i]))) << i;
  ASSERT_EQ(got.reported.size(), expected.reported.size());
  for (const auto& [name, value] : expected.reported)
    EXPECT_NEAR(got.reported.at(name), value, 2e-6 * (1 + std::abs(value))) << name;
}

// Selects a process's part of a batch.
using PartOf = std::function<Pair(const Pair& batch, const data::BatchShare& share)>;

// Divides rows along a dimension of both tensors.
PartOf along(int dim) {
  return [dim](const Pair& batch, const data::BatchShare& share) {
    const auto [first, count] = share.rows(std::get<0>(batch).size(dim));
    return Pair(std::get<0>(batch).narrow(dim, first, count), std::get<1>(batch).narrow(dim, first, count));
  };
}

// Trains on the batches in every process of the grid.
template <class M, class Loss>
std::vector<Trained> trained(const Grid& grid, TrainerOptions options, const M& module,
                             const std::vector<Pair>& batches, const PartOf& part, const Loss& loss,
                             bool on_cpu = false) {
  const SimulatedDevices devices({.count = grid.processes * grid.devices});
  std::vector<Trained> ends(std::size_t(grid.processes));
  const auto failures = in_processes(grid.processes, [&](const World& world) {
    TrainerOptions mine = options;
    mine.progress = kSilent;
    mine.parallel.world = world;
    for (int d = 0; d < grid.devices && !on_cpu; ++d)
      mine.devices.push_back(Device::cuda(world.rank().value() * grid.devices + d));
    if (on_cpu) mine.num_gpus = 0;
    const Trainer trainer(mine);
    std::vector<Pair> own;
    for (const Pair& batch : batches) own.push_back(part(batch, trainer.share()));
    M net(module);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    const History history = trainer.fit(net, own, {.loss = loss, .optimizer = optimizer, .validation = own});
    Trained& end = ends[std::size_t(world.rank().value())];
    for (const Tensor& parameter : net.parameters())
      for (const float value : parameter.detach().template to_vector<float>()) end.parameters.push_back(value);
    for (const std::string& name : history.columns())
      if (name.find("loss") != std::string::npos) end.reported.emplace(name, history.column(name).back().value());
  });
  for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
  return ends;
}

// Trains with the batches accumulated into one step, and compares with one CPU and one batch.
template <class M, class Loss, class Oracle>
void expect_as_one_batch(TrainerOptions options, const M& module, const std::vector<Pair>& batches, int dim,
                         const Loss& loss, const Oracle& oracle) {
  std::vector<Tensor> inputs, targets;
  for (const auto& [input, target] : batches) inputs.push_back(input), targets.push_back(target);
  TrainerOptions plain = {.max_epochs = options.max_epochs, .gradient_clip_val = options.gradient_clip_val};
  const auto expected =
      trained({1, 1}, plain, module, {Pair(cat(inputs, dim), cat(targets, dim))}, along(dim), oracle, true);
  options.accumulate = std::int64_t(batches.size());
  for (const Grid& grid : kGrids) {
    SCOPED_TRACE(name_of(grid));
    for (const Trained& each : trained(grid, options, module, batches, along(dim), loss))
      expect_close(each, expected[0]);
  }
}

Pair columns(std::int64_t count) { return {randn({4, count, 3}), randn({4, count, 1})}; }

const auto kMse = [](auto& model, auto& batch, auto&) {
  return mse_loss(model(std::get<0>(batch)), std::get<1>(batch));
};

TEST(Means, OfBatchesAreWeightedByTheirSizesAlongTheDimensionThatIsScattered) {
  manual_seed(5);
  const nn::Linear net(3, 1);
  expect_as_one_batch({.max_epochs = 3, .parallel = {.scatter = {.dim = 1}}}, net, {columns(6), columns(3)}, 1, kMse,
                      kMse);
}

TEST(Means, ArePredictedFromOutputsJoinedAlongTheDimensionThatIsScattered) {
  const SimulatedDevices devices({.count = 2});
  nn::Linear net(3, 1);
  std::vector<Tensor> batches = {randn({4, 3, 3}), randn({4, 3, 3})};
  const std::vector<float> expected = net(cat(batches, 1)).detach().to_vector<float>();
  for (const int gpus : {0, 2}) {
    const Trainer trainer({.num_gpus = gpus, .progress = kSilent, .parallel = {.scatter = {.dim = 1}}});
    const Tensor got = trainer.predict(net, batches);
    EXPECT_EQ(got.sizes(), (Shape{4, 6, 1}));
    EXPECT_EQ(got.to_vector<float>(), expected);
  }
}

struct WithLoss : nn::Module<WithLoss> {
  nn::Linear net{3, 1};
  auto members() { return nn::members("net", net); }
  Tensor forward(const Tensor& x, const Tensor& y) { return mse_loss(net(x), y); }
};

TEST(Means, OfALossInsideOfForwardAreThoseOfTheWholeBatch) {
  manual_seed(5);
  const WithLoss net;
  const auto loss = [](auto& model, auto& batch, auto&) { return model(std::get<0>(batch), std::get<1>(batch)); };
  expect_as_one_batch({.max_epochs = 3}, net, {{randn({6, 3}), randn({6, 1})}, {randn({5, 3}), randn({5, 1})}}, 0, loss,
                      loss);
}

// Many rows are padding: some shards, the first of several processes' rows, and one batch are nothing else.
constexpr std::int64_t kPadding = 0;
const std::vector<Pair>& padded_batches() {
  static const std::vector<Pair> batches = [] {
    manual_seed(6);
    return std::vector<Pair>{{randn({7, 3}), tensor({0, 0, 0, 0, 3, 1, 0})},
                             {randn({6, 3}), tensor({0, 0, 0, 0, 0, 0})},
                             {randn({5, 3}), tensor({2, 1, 3, 3, 1})}};
  }();
  return batches;
}

struct Tagger : nn::Module<Tagger> {
  nn::Linear net{3, 4};
  auto members() { return nn::members("net", net); }
  Tensor forward(const Tensor& x) { return net(x); }
  WeightedMean forward(const Tensor& x, const Tensor& tags) {
    return mean_cross_entropy(net(x), tags, {.ignore_index = kPadding});
  }
};

const auto kOracle = [](auto& model, auto& batch, auto&) {
  return cross_entropy(model(std::get<0>(batch)), std::get<1>(batch), {.ignore_index = kPadding});
};
const auto kOfOutputs = [](auto& model, auto& batch, auto&) {
  return mean_cross_entropy(model(std::get<0>(batch)), std::get<1>(batch), {.ignore_index = kPadding});
};
const auto kInTheModel = [](auto& model, auto& batch, auto&) { return model(std::get<0>(batch), std::get<1>(batch)); };

Tagger tagger() {
  manual_seed(7);
  return {};
}

TEST(Means, OfWhatCountsAreThoseOfTheWholeBatch) {
  const TrainerOptions options = {.max_epochs = 3};
  expect_as_one_batch(options, tagger(), padded_batches(), 0, kOfOutputs, kOracle);
  expect_as_one_batch(options, tagger(), padded_batches(), 0, kInTheModel, kOracle);
}

TEST(Means, OfWhatCountsAreClippedAsThoseOfTheWholeBatch) {
  const TrainerOptions options = {
      .max_epochs = 3, .gradient_clip_val = 0.1, .parallel = {.shard = Shard::optimizer_state}};
  expect_as_one_batch(options, tagger(), padded_batches(), 0, kOfOutputs, kOracle);
  TrainerOptions sums = options;
  sums.parallel.loss = ProcessLoss::sum;
  expect_as_one_batch(sums, tagger(), padded_batches(), 0, kInTheModel, kOracle);
}

TEST(Means, OfACriterionAreWeightedByTheTargetsThatCount) {
  const nn::CrossEntropyLoss loss(
      {.weight = tensor({1., 0.5, 2., 0.25}, {.dtype = kFloat32}), .ignore_index = kPadding});
  for (const ProcessLoss kind : {ProcessLoss::mean, ProcessLoss::sum}) {
    TrainerOptions options = {.max_epochs = 3};
    options.parallel.loss = kind;
    const auto oracle = [&](auto& model, auto& batch, auto&) {
      return loss.forward(model(std::get<0>(batch)), std::get<1>(batch));
    };
    const auto by_criterion = [&](auto& model, auto& batch, auto& metrics) {
      return criterion(copy(loss))(model, batch, metrics);  // moves the criterion to the model's device
    };
    expect_as_one_batch(options, tagger(), padded_batches(), 0, by_criterion, oracle);
  }
}

// A mean is weighted by the forward pass that it came from, even if other passes follow.
TEST(Means, OfWhatCountsKeepTheSharesOfTheirPass) {
  const auto loss = [](auto& model, auto& batch, auto&) {
    const WeightedMean mean =
        nn::mean_cross_entropy(model(std::get<0>(batch)), std::get<1>(batch), {.ignore_index = kPadding});
    const NoGrad guard;
    model(ones({2, 3}, model.device()));  // equally many rows in each process
    return mean;
  };
  expect_as_one_batch({.max_epochs = 2}, tagger(), padded_batches(), 0, loss, kOracle);
}

// A model that takes a batch's inputs as one argument.
struct OfAPair : nn::Module<OfAPair> {
  nn::Linear fc{3, 1};
  auto members() { return nn::members("fc", fc); }
  Tensor forward(const std::pair<Tensor, Tensor>& inputs) { return fc(inputs.first + inputs.second); }
};

// The loss of docs/many-hosts.md, also on one device.
TEST(Means, OfRowsInAStructureAreCounted) {
  const auto error = [](auto& model, auto& batch) {
    const Tensor x = std::get<0>(batch);
    return square(model(std::pair(x, x * 2.)) - std::get<1>(batch));
  };
  const auto by_rows = [&](auto& model, auto& batch, auto&) {
    const Tensor errors = error(model, batch);
    return sum(errors) / double(model.batch_rows());
  };
  const auto oracle = [&](auto& model, auto& batch, auto&) { return mean(error(model, batch)); };
  const std::vector<Pair> batches = {{randn({8, 3}), randn({8, 1})}};
  TrainerOptions sums = {.max_epochs = 2};
  sums.parallel.loss = ProcessLoss::sum;
  expect_as_one_batch(sums, OfAPair(), batches, 0, by_rows, oracle);
  // The reported means are also right if a pass has a multiple of the batch's rows.
  const auto joined = [](auto& model, auto& batch, auto&) {
    const Tensor x = std::get<0>(batch), y = std::get<1>(batch), rows = cat({x, x}, 0);
    const Tensor errors = square(model(std::pair(rows, rows * 2.)) - cat({y, y}, 0));
    return sum(errors) / double(model.batch_rows());
  };
  expect_as_one_batch(sums, OfAPair(), batches, 0, joined, oracle);
}

// The default ignore_index.
TEST(Means, OfACriterionThatIsAFunctionAreWeightedByTheTargetsThatCount) {
  std::vector<Pair> batches;
  for (const auto& [x, tags] : padded_batches()) batches.emplace_back(x, where(eq(tags, kPadding), -100, tags));
  const auto oracle = [](auto& model, auto& batch, auto&) {
    return cross_entropy(model(std::get<0>(batch)), std::get<1>(batch));
  };
  expect_as_one_batch({.max_epochs = 3}, tagger(), batches, 0, criterion(nn::cross_entropy), oracle);
}

// P processes with D devices each train bit for bit what one process with all devices trains.
TEST(Means, OfWhatCountsHaveTheSameBitsInAnyNumberOfProcesses) {
  TrainerOptions options = {.max_epochs = 3, .accumulate = 3};
  options.parallel.loss = ProcessLoss::sum;
  const std::vector<Pair> batches = {{randn({8, 3}), tensor({0, 0, 0, 0, 3, 1, 0, 2})},
                                     {randn({4, 3}), tensor({3, 0, 0, 1})}};
  const PartOf part = along(0);
  const auto expected = trained({1, 4}, options, tagger(), batches, part, kOfOutputs);
  for (const Grid& grid : {Grid{2, 2}, Grid{4, 1}})
    for (const Trained& each : trained(grid, options, tagger(), batches, part, kOfOutputs))
      EXPECT_EQ(each.parameters, expected[0].parameters) << name_of(grid);
}

// Gradients of sums of many rows overflow float16; those divided by millions of rows underflow.
TEST(Means, OfWhatCountsAreTrainedInFloat16) {
  const auto expected =
      trained({1, 1}, {.max_epochs = 3}, tagger(),
              {Pair(cat(std::vector{std::get<0>(padded_batches()[0]), std::get<0>(padded_batches()[2])}, 0),
                    cat(std::vector{std::get<1>(padded_batches()[0]), std::get<1>(padded_batches()[2])}, 0))},
              along(0), kOracle, true);
  const auto got = trained({1, 2}, {.max_epochs = 3, .accumulate = 3, .precision = Precision::float16}, tagger(),
                           padded_batches(), along(0), kOfOutputs);
  for (std::size_t i = 0; i < got[0].parameters.size(); ++i)
    EXPECT_NEAR(got[0].parameters[i], expected[0].parameters[i], 2e-3) << i;
}

TEST(Means, OfAStepInWhichNothingCountsChangeNothing) {
  const Tagger before = tagger();
  for (const std::int64_t accumulate : {1, 2}) {
    const std::vector<Pair> batches(2, padded_batches()[1]);
    TrainerOptions options = {.max_epochs = 2, .accumulate = accumulate};
    const auto got = trained({1, 3}, options, before, batches, along(0), kOfOutputs);
    EXPECT_EQ(got[0].parameters,
              trained({1, 1}, {.max_epochs = 0}, before, batches, along(0), kOfOutputs)[0].parameters);
    EXPECT_TRUE(std::isnan(got[0].reported.at("train_loss")));
  }
}

TEST(Means, OfBothKindsInOneStepAreRefused) {
  bool weighted = false;
  const auto loss = [&](auto& model, auto& batch, auto& metrics) -> Loss {
    if (weighted = !weighted; weighted) return kOfOutputs(model, batch, metrics);
    return kOracle(model, batch, metrics);
  };
  Tagger net = tagger();
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  std::vector<Pair> batches = {padded_batches()[0], padded_batches()[2]};
  const Trainer trainer({.num_gpus = 0, .accumulate = 2, .progress = kSilent});
  EXPECT_EQ(
      testing::thrown<InvalidArgument>([&] { trainer.fit(net, batches, {.loss = loss, .optimizer = optimizer}); }),
      "[trainer] expected the losses of a step's batches to be all tensors or all a WeightedMean, got both");
}

// Weighted by rows, the last, small batch would count by its rows instead of its targets that are not ignored.
TEST(Means, OfAnEvaluationAreWeightedByWhatCounts) {
  const Tagger module = tagger();
  std::vector<Tensor> x, tags;
  for (const auto& [a, b] : padded_batches()) x.push_back(a), tags.push_back(b);
  const double expected =
      cross_entropy(Tagger(module)(cat(x, 0)), cat(tags, 0), {.ignore_index = kPadding}).item<double>();
  for (const Grid& grid : kGrids) {
    const SimulatedDevices devices({.count = grid.processes * grid.devices});
    const auto failures = in_processes(grid.processes, [&](const World& world) {
      TrainerOptions options = {.progress = kSilent, .parallel = {.world = world}};
      for (int d = 0; d < grid.devices; ++d)
        options.devices.push_back(Device::cuda(world.rank().value() * grid.devices + d));
      const Trainer trainer(options);
      std::vector<Pair> own;
      for (const Pair& batch : padded_batches()) own.push_back(along(0)(batch, trainer.share()));
      Tagger net(module);
      EXPECT_NEAR(trainer.evaluate(net, own, kOfOutputs).at("loss"), expected, 1e-6) << name_of(grid);
      EXPECT_NEAR(trainer.evaluate(net, own, kInTheModel).at("loss"), expected, 1e-6) << name_of(grid);
    });
    for (const std::exception_ptr& failure : failures) EXPECT_FALSE(failure) << testing::message_of<Error>(failure);
  }
}

TEST(Means, OfWhatCountsLeadTheSearchForARate) {
  const auto table = [](std::vector<Pair> batches, std::int64_t accumulate, const auto& loss) {
    Tagger net = tagger();
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    const Trainer trainer({.num_gpus = 0, .accumulate = accumulate, .progress = kSilent});
    return trainer.find_lr(net, batches, {.loss = loss, .optimizer = optimizer}, {.num_training = 8})
        .table.column("loss");
  };
  std::vector<Tensor> x, tags;
  for (const auto& [a, b] : padded_batches()) x.push_back(a), tags.push_back(b);
  const auto got = table(padded_batches(), 3, kOfOutputs),
             expected = table({Pair(cat(x, 0), cat(tags, 0))}, 1, kOracle);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i].value(), expected[i].value(), 1e-5);
}

}  // namespace
}  // namespace lockstep::means
