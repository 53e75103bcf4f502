// checkpoint() around layers that change their buffers: buffers change once, and gradients equal those without
// checkpoint.
#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/checkpoint.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/weight_norm.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::checkpointed_layers {
namespace {

using testing::thrown;
using testing::values;

// Counts its calls in one whole buffer and in overlapping views of another, and scales x by the counts.
struct Counting : nn::Module<Counting> {
  nn::Buffer calls{zeros({})}, turns{zeros({3})};
  nn::Parameter scale{full({}, 1.5)};
  auto members() { return nn::members("calls", calls, "turns", turns, "scale", scale); }
  Tensor forward(const Tensor& x) {
    {
      const NoGrad guard;
      calls.add_(1);
      for (int i = 0; i < 2; ++i) turns.slice(0, i, i + 2).mul_(2).add_(1);  // overlapping views
    }
    return x * scale * calls.clone() + sum(turns.clone() * scale);
  }
};

// Without a bias before the norm: its gradient would be 0 but for rounding errors.
struct Block : nn::Module<Block> {
  nn::SpectralNorm<nn::Linear> first{nn::Linear(4, 6, {.bias = false})};
  nn::BatchNorm1d norm{6};
  nn::Linear second{6, 4};
  Counting counting;
  auto members() { return nn::members("first", first, "norm", norm, "second", second, "counting", counting); }
  Tensor forward(const Tensor& x) { return x + counting(second(norm(first(x)))); }
};

using Result = std::vector<std::vector<double>>;

void add_state(nn::ModuleBase& module, Result& result) {
  for (const auto& [name, value] : module.state_dict()) result.push_back(values(value));
  for (const Tensor& parameter : module.parameters()) result.push_back(values(parameter.grad()));
}

// Runs function(module, x) `calls` times, then one backward of the sum.
template <class M, class F>
Result train(const M& like, const Tensor& input, const F& function, bool checkpointed, int calls = 2) {
  M module = copy(like);
  Tensor x = input.clone().detach().requires_grad_(), loss;
  const auto call = [&](const Tensor& y) { return function(module, y); };
  for (int i = 0; i < calls; ++i) {
    const Tensor part = sum(square(checkpointed ? checkpoint(call, x) : call(x)));
    loss = loss.defined() ? loss + part : part;
  }
  loss.backward();
  Result result = {values(loss), values(x.grad())};
  add_state(module, result);
  return result;
}

TEST(CheckpointedLayers, ChangeTheirBuffersOnce) {
  const TestDevices devices(1);
  const Block block;
  for (const char* device : {"cpu", "cuda:0"}) {
    Block there = copy(block);
    there.to(Device(device));
    const Tensor x = randn({5, 4}).to(device);
    const auto forward = [](Block& module, const Tensor& y) { return module(y); };
    EXPECT_EQ(train(there, x, forward, true), train(there, x, forward, false)) << device;
  }
}

TEST(CheckpointedLayers, ChangeTheirBuffersOnceInCheckpointsInACheckpoint) {
  const Block block;
  const Tensor x = randn({5, 4});
  const auto twice = [](bool checkpointed) {
    return [=](Block& module, const Tensor& y) {
      const auto call = [&](const Tensor& z) { return module(z); };
      const Tensor once = checkpointed ? checkpoint(call, y) : call(y);
      module.counting(once.detach());
      return checkpointed ? checkpoint(call, once) : call(once);
    };
  };
  EXPECT_EQ(train(block, x, twice(true), true), train(block, x, twice(false), false));
}

TEST(CheckpointedLayers, MayBeMadeByTheirFirstBatch) {
  struct Lazy : nn::Module<Lazy> {
    nn::LazyBatchNorm1d norm;
    auto members() { return nn::members("norm", norm); }
  };
  const auto forward = [](Lazy& module, const Tensor& y) { return module.norm(tanh(y)); };
  const Tensor x = randn({5, 4});
  EXPECT_EQ(train(Lazy(), x, forward, true), train(Lazy(), x, forward, false));
}

TEST(CheckpointedLayers, HaveGradientsOfGradients) {
  const Block block;
  const Tensor input = randn({5, 4});
  const auto second = [&](bool checkpointed) {
    Block module = copy(block);
    const Tensor x = input.clone().detach().requires_grad_();
    const auto call = [&](const Tensor& y) { return module(tanh(y)); };
    const Tensor y = checkpointed ? checkpoint(call, x) : call(x);
    const Tensor first = gradients(std::vector{sum(square(y))}, std::vector{x}, {}, {.create_graph = true})[0];
    sum(square(first)).backward();
    Result result = {values(x.grad())};
    add_state(module, result);
    return result;
  };
  const Result got = second(true), expected = second(false);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].size(), expected[k].size());
    for (std::size_t i = 0; i < got[k].size(); ++i)
      EXPECT_NEAR(got[k][i], expected[k][i], 1e-4 * (1 + std::abs(expected[k][i])));
  }
}

// A tensor that a user's function captures is treated as a buffer; so is a parameter that changes under NoGrad.
TEST(CheckpointedLayers, MayBeFunctionsOfTensorsThatTheyChange) {
  const auto run = [](bool checkpointed) {
    Tensor count = zeros({2});
    nn::Parameter weight(full({2}, 3.));
    const Tensor x = full({2}, 2.).requires_grad_();
    const auto function = [&](const Tensor& y) {
      {
        const NoGrad guard;
        count.add_(1);
        weight.mul_(0.5);
      }
      return y * y * weight * count.clone();
    };
    const Tensor y = checkpointed ? checkpoint(function, x) : function(x);
    sum(y).backward({}, true);
    sum(y).backward();
    return Result{values(x.grad()), values(weight.grad()), values(weight), values(count), {double(count.version())}};
  };
  EXPECT_EQ(run(true), run(false));
}

// The function changes a value after it was saved. Without checkpoint, backward refuses that.
TEST(CheckpointedLayers, GiveGradientsOfTheValuesThatWereUsed) {
  Tensor count = full({2}, 3.);
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = checkpoint(
      [&](const Tensor& in) {
        const Tensor out = in * count;
        count.add_(1);
        return out;
      },
      x);
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{3, 3}));
  EXPECT_EQ(values(count), (std::vector<double>{4, 4}));
}

TEST(CheckpointedLayers, HaveTheirBuffersAfterASecondRunThatFailed) {
  Counting module;
  const Tensor x = ones({2}).requires_grad_();
  bool again = false;
  const Tensor y = checkpoint(
      [&](const Tensor& in) {
        const Tensor out = module(exp(in));
        if (std::exchange(again, true)) throw std::runtime_error("the second run");
        return out;
      },
      x);
  const std::vector<double> calls = values(module.calls), turns = values(module.turns);
  const std::uint64_t version = module.calls.version();
  EXPECT_NE(thrown<std::runtime_error>([&] { sum(y).backward(); }).find("the second run"), std::string::npos);
  EXPECT_EQ(values(module.calls), calls);
  EXPECT_EQ(values(module.turns), turns);
  EXPECT_EQ(module.calls.version(), version);
}

TEST(CheckpointedLayers, KeepNothingOfTensorsThatTheyMakeAndChange) {
  const TestDevices devices(1);
  const Device device("cuda:0");
  const Tensor x = rand({256, 256}, {.device = device}).requires_grad_();
  const std::size_t before = memory_stats(device).in_use;
  const Tensor y = checkpoint(
      [](const Tensor& in) {
        Tensor mask = zeros({256, 256}, {.device = in.device()});
        mask.slice(0, 0, 100).fill_(1);
        mask.mul_(0.5);
        return in * mask;
      },
      x);
  EXPECT_LE(memory_stats(device).in_use - before, std::size_t(y.numel()) * sizeof(float));
}

}  // namespace
}  // namespace lockstep::checkpointed_layers
