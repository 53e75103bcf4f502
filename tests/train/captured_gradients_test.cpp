// Gradients and parameters beside captured steps, at each level of sharding: what eager work between launches, and a
// capture that is refused, leave behind.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/captured_step.h>

#include "support/replicas.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::train::captured_gradients {
namespace {

using testing::thrown;
using Values = std::vector<std::vector<float>>;

constexpr Shard kLevels[] = {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::parameters};

struct Branches : nn::Module<Branches> {
  nn::Linear a{5, 7}, b{5, 7};
  auto members() { return nn::members("a", a, "b", b); }
  Tensor forward(const Tensor& x, bool uses_a, bool uses_b) {
    if (!uses_b) return a(x);
    return uses_a ? a(x) + b(x) : b(x);
  }
};

DataParallel<Branches> make(Shard shard) {
  manual_seed(3);
  return DataParallel(Branches(), {.device_ids = {0, 1}, .buckets = {.first_bytes = 64, .bytes = 64}, .shard = shard});
}

Values values_of(const std::vector<Tensor>& tensors) {
  Values values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.detach().to_vector<float>());
  return values;
}

// An eager backward between two launches takes another branch: the gradients of the launch are read after it.
TEST(CapturedGradients, AreReadAfterAnEagerBackwardOfOthers) {
  const TestDevices devices(2);
  std::vector<Values> of_levels;
  for (const Shard shard : kLevels) {
    DataParallel model = make(shard);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    CapturedStep step([&](const Tensor& x) {
      Tensor loss = sum(model(x, true, false));
      loss.backward();
      return loss;
    });
    Values& seen = of_levels.emplace_back();
    for (int i = 0; i < 6; ++i) {
      const Tensor x = randn({6, 5}).to(model.device());
      if (i >= 4) {
        sum(model(x, false, true)).backward();
        optimizer.zero_grad();
      }
      step(x);
      if (i >= 4) seen.push_back(model.module().a.weight.grad().to_vector<float>());
      optimizer.step();
      optimizer.zero_grad();
    }
    EXPECT_TRUE(step.is_captured());
    for (auto& values : values_of(model.parameters())) seen.push_back(std::move(values));
    EXPECT_EQ(seen, of_levels[0]) << shard;
  }
}

// A parameter's first step cannot be captured: then no parameter has changed, on any device.
TEST(CapturedGradients, ARefusedStepChangesNoParameter) {
  const TestDevices devices(2);
  for (const Shard shard : kLevels) {
    DataParallel model = make(shard);
    Branches& net = model.module();
    optim::AdamW optimizer({{net.a.parameters(), {.lr = 0.1}}, {net.b.parameters(), {.lr = 0.1}}});
    bool both = false;
    CapturedStep step([&](const Tensor& x) {
      optimizer.zero_grad();
      Tensor loss = sum(model(x, true, both));
      loss.backward();
      optimizer.step();
      return loss;
    });
    const Tensor x = randn({6, 5}).to(model.device());
    for (int i = 0; i < 2; ++i) step(x);
    const Values before = values_of(model.parameters());
    both = true;
    EXPECT_NE(thrown<InvalidArgument>([&] { step(x); }).find("cannot capture a parameter's first step"),
              std::string::npos);
    EXPECT_EQ(values_of(model.parameters()), before) << shard;
    for (const Tensor& replica : testing::other_replicas(net.a.weight))
      EXPECT_EQ(replica.detach().to_vector<float>(), before[0]) << shard;
  }
}

// cross_entropy may write its gradient over logits that nobody reads: a captured step reads them in each launch.
TEST(CapturedGradients, AreNotWrittenOverWhatALaunchReads) {
  const TestDevices devices(1);
  const Device device("cuda:0");
  const Tensor offset = randn({1, 8}).to(device).requires_grad_();
  Tensor logits = randn({4, 8}).to(device) + offset;
  const Tensor loss = cross_entropy(logits, randint(0, 8, {4}).to(device));
  CapturedStep step([&](const Tensor& factor) {
    const NoGrad guard;
    return sum(logits.detach() * factor);
  });
  const Tensor one = ones({1}).to(device);
  for (int i = 0; i < 3; ++i) step(one);
  ASSERT_TRUE(step.is_captured());
  const double before = step(one).item();
  logits = zeros({4, 8}).to(device);
  loss.backward();
  EXPECT_EQ(step(one).item(), before);
}

}  // namespace
}  // namespace lockstep::train::captured_gradients
