// checkpoint() in replicas, around layers that change their buffers.
#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/checkpoint.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/weight_norm.h>
#include <lockstep/optim/sgd.h>

#include "parallel/mlp_job.h"
#include "support/replicas.h"
#include "support/thrown.h"

namespace lockstep::checkpointed_layers {
namespace {

struct Net : nn::Module<Net> {
  nn::SpectralNorm<nn::Linear> first{nn::Linear(4, 6)};
  nn::BatchNorm1d norm{6};
  nn::Dropout drop{0.3};
  nn::Linear second{6, 4};
  nn::Buffer of_primary{zeros({})}, of_all{zeros({}), nn::BufferSync::equal}, mean{zeros({6}), nn::BufferSync::mean};
  bool checkpointed = false;
  auto members() {
    return nn::members("first", first, "norm", norm, "drop", drop, "second", second, "of_primary", of_primary, "of_all",
                       of_all, "mean", mean, "checkpointed", checkpointed);
  }
  Tensor block(const Tensor& x) {
    const Tensor h = norm(first(x));
    {
      const NoGrad guard;
      of_primary.add_(1);
      of_all.add_(1);
      mean.mul_(0.5).add_(lockstep::mean(h.detach(), {0}));
    }
    return x + second(drop(h * of_all.clone() + mean.clone()));
  }
  Tensor forward(const Tensor& x) {
    if (!checkpointed) return block(x);
    return checkpoint([this](const Tensor& y) { return block(y); }, x);
  }
};

std::vector<std::vector<float>> train(const Net& net, bool checkpointed) {
  DataParallel model{copy(net)};
  model.module().checkpointed = checkpointed;
  optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
  manual_seed(2);
  std::vector<std::vector<float>> result;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    for (int part = 0; part < 2; ++part) {
      const Tensor y = model(randn({15, 4}));
      const Tensor loss = mean(y * y);
      loss.backward();
      result.push_back(testing::floats(loss));
    }
    optimizer.step();
  }
  for (const auto& [name, value] : model.state_dict()) result.push_back(testing::floats(value.to(kFloat32)));
  return result;
}

TEST(CheckpointedLayersInReplicas, TrainAsWithoutCheckpoint) {
  const Net net;
  for (const int count : {1, 2, 3, 5}) {
    const SimulatedDevices devices({.count = count});
    EXPECT_EQ(train(net, true), train(net, false)) << count << " devices";
  }
}

// Replicas would keep what they save, and change their buffers twice.
TEST(CheckpointedLayers, AreNotAWholePass) {
  for (const int count : {1, 2}) {
    const SimulatedDevices devices({.count = count});
    DataParallel model{Net()};
    const auto pass = [&](const Tensor& x) { return tanh(model(x)); };
    EXPECT_NE(testing::thrown<InvalidArgument>([&] {
                checkpoint(pass, randn({6, 4}).requires_grad_());
              }).find("call checkpoint() inside of the module"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::checkpointed_layers
