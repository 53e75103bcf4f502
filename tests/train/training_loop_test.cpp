// The training loop of the design document, as users write it: on any number of devices it trains what one device
// trains, with the loss outside or inside the model, and its saved state loads without the prefix.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/nn/functional.h>
#include <lockstep/nn/layers.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/trainer.h>

#include "io/memory_source.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::same;
using testing::TemporaryFolder;
using testing::values;

using Names = std::set<std::string>;

constexpr int kEpochs = 3;

struct Net : nn::Module<Net> {
  nn::Linear fc1, fc2;
  explicit Net(DType dtype = kFloat32)
      : fc1(5, 8, {.tensor = {.dtype = dtype}}), fc2(8, 3, {.tensor = {.dtype = dtype}}) {}
  auto members() { return nn::members("fc1", fc1, "fc2", fc2); }
  Tensor forward(const Tensor& x) { return fc2(relu(fc1(x))); }
};

struct NetWithLoss : nn::Module<NetWithLoss> {
  Net net;
  explicit NetWithLoss(DType dtype) : net(dtype) {}
  auto members() { return nn::members("net", net); }
  Tensor forward(const Tensor& input, const Tensor& target) { return nn::cross_entropy(net(input), target); }
};

// Batches of 10, 10 and 4 rows, divided over three devices into 4, 4, 2 and 2, 2.
auto make_loader(DType dtype) {
  manual_seed(2);
  const Tensor input = randn({24, 5}, {.dtype = dtype}), target = randint(0, 3, {24});
  return data::DataLoader(data::TensorDataset(input, target), {.batch_size = 10, .shuffle = true, .seed = 3});
}

struct Trained {
  StateDict state;
  std::vector<double> losses = {};  // of each step
};

// The oracle: without DataParallel and GPUs.
Trained trained_on_cpu(DType dtype) {
  auto loader = make_loader(dtype);
  manual_seed(1);
  Net net(dtype);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::vector<double> losses;
  for (int epoch = 0; epoch < kEpochs; ++epoch)
    for (auto [input, target] : loader) {
      optimizer.zero_grad();
      const Tensor loss = nn::cross_entropy(net(input), target);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
  return {net.state_dict(), losses};
}

// The tolerance is relative to each tensor's largest value.
void expect_close(const Trained& got, const Trained& expected, double relative) {
  ASSERT_EQ(got.state.size(), expected.state.size());
  for (const auto& [key, tensor] : expected.state) {
    const std::vector<double> a = values(got.state.at(key)), b = values(tensor);
    double largest = 0;
    for (const double value : b) largest = std::max(largest, std::abs(value));
    ASSERT_EQ(a.size(), b.size()) << key;
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], relative * largest) << key << ", element " << i;
  }
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    ASSERT_NEAR(got.losses[i], expected.losses.at(i), relative * expected.losses.at(i)) << "step " << i + 1;
}

Names keys_of(const StateDict& state) {
  Names keys;
  for (const auto& [key, tensor] : state) keys.insert(key);
  return keys;
}

struct Case {
  const char* name;
  DeviceIds device_ids;
  DType dtype;
  double relative;
};

class TrainingLoop : public ::testing::TestWithParam<Case> {
 protected:
  // Verbatim from the document.
  DataParallel<Net> trained() const {
    auto loader = make_loader(dtype_);
    manual_seed(1);
    DataParallel model(Net{dtype_}, {.device_ids = device_ids_});
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    for (int epoch = 0; epoch < kEpochs; ++epoch)
      for (auto [input, target] : loader) {
        optimizer.zero_grad();
        Tensor loss = nn::cross_entropy(model(input), target.to(model.device()));
        loss.backward();
        optimizer.step();
      }
    return model;
  }

  const TestDevices devices_{3};
  const DeviceIds device_ids_ = GetParam().device_ids;
  const DType dtype_ = GetParam().dtype;
};

TEST_P(TrainingLoop, TrainsWhatOneDeviceTrains) {
  auto model = trained();
  expect_close({model.module().state_dict()}, trained_on_cpu(dtype_), GetParam().relative);
}

TEST_P(TrainingLoop, SavesWhatLoadsWithoutThePrefix) {
  auto model = trained();
  const TemporaryFolder folder;
  const auto file = folder / "net.safetensors";
  save(model.state_dict(), file);
  EXPECT_EQ(keys_of(load(file)),
            (Names{"module.fc1.weight", "module.fc1.bias", "module.fc2.weight", "module.fc2.bias"}));
  const StateDict state = model.module().state_dict();
  EXPECT_EQ(keys_of(state), (Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));

  Net fresh(dtype_);
  DataParallel fresh_model(copy(fresh), {.device_ids = device_ids_});
  EXPECT_FALSE(same(fresh.state_dict(), state));
  fresh.load_state_dict(load(file), {.strip_prefix = "module."});
  fresh_model.module().load_state_dict(load(file), {.strip_prefix = "module."});
  EXPECT_TRUE(same(fresh.state_dict(), state));
  const Tensor input = randn({10, 5}, {.dtype = dtype_});
  EXPECT_EQ(values(fresh_model(input)), values(model(input)));
}

TEST_P(TrainingLoop, TakesTheLossInsideOfForward) {
  auto loader = make_loader(dtype_);
  manual_seed(1);
  DataParallel model(NetWithLoss{dtype_}, {.device_ids = device_ids_, .gather = Gather::mean});
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::vector<double> losses;
  for (int epoch = 0; epoch < kEpochs; ++epoch)
    for (auto [input, target] : loader) {
      optimizer.zero_grad();
      Tensor loss = model(input, target);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
  const Trained expected = trained_on_cpu(dtype_);
  ASSERT_EQ(losses.size(), expected.losses.size());
  expect_close({model.module().net.state_dict(), losses}, expected, GetParam().relative);
}

TEST_P(TrainingLoop, OfATrainerTakesTheLossInsideOfForward) {
  auto loader = make_loader(dtype_);
  manual_seed(1);
  NetWithLoss net(dtype_);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  const train::Trainer trainer({.max_epochs = kEpochs,
                                .num_gpus = int(device_ids_.size()),
                                .progress = {.out = nullptr},
                                .parallel = {.gather = Gather::mean}});
  std::vector<double> losses;
  const auto loss = [&](auto& model, auto& batch, auto&) {
    auto& [input, target] = batch;
    const Tensor of_batch = model(input, target);
    losses.push_back(of_batch.detach().to(Device()).item<double>());
    return of_batch;
  };
  trainer.fit(net, loader, {.loss = loss, .optimizer = optimizer});
  const Trained expected = trained_on_cpu(dtype_);
  ASSERT_EQ(losses.size(), expected.losses.size());
  expect_close({net.net.state_dict(), losses}, expected, GetParam().relative);
}

INSTANTIATE_TEST_SUITE_P(, TrainingLoop,
                         ::testing::Values(Case{"Float32OnOne", {0}, kFloat32, 1e-4},
                                           Case{"Float32OnThree", {0, 1, 2}, kFloat32, 1e-4},
                                           Case{"Float64OnOne", {0}, kFloat64, 1e-11},
                                           Case{"Float64OnThree", {0, 1, 2}, kFloat64, 1e-11}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
