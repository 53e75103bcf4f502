// Sharded gradients can be accumulated, read, set and clipped as if each device had all of them.
#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>

#include "parallel/sharded.h"
#include "support/test_devices.h"

namespace lockstep::sharded {
namespace {

class ShardedGradients : public ::testing::TestWithParam<std::tuple<int, Shard>> {
 protected:
  DataParallelOptions sharding() const { return options(std::get<1>(GetParam())); }

  /// `job` takes a model and returns all gradients, once or several times; expects the same bits with and without
  /// sharding.
  template <class Job>
  void expect_same_gradients(const Job& job, std::size_t bucket_bytes = 300) const {
    manual_seed(3);
    const Net net(kFloat64);
    std::vector<std::vector<std::vector<std::vector<double>>>> got;
    for (DataParallelOptions with : {options(Shard::none), sharding()}) {
      with.buckets.bytes = bucket_bytes;
      DataParallel model(copy(net), with);
      got.push_back(job(model));
    }
    ASSERT_FALSE(got[0].empty());
    EXPECT_EQ(got[1], got[0]);
  }

  SimulatedDevices devices_{{.count = std::get<0>(GetParam()), .max_delay_us = 10}};
};

TEST_P(ShardedGradients, GradientsAreWholeForWhoAsks) {
  manual_seed(3);
  const Net net;
  DataParallel whole(copy(net), options(Shard::none)), sharded(copy(net), sharding());
  optim::SGD a(whole.parameters(), {.lr = 0.1, .momentum = 0.9}), b(sharded.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 4; ++step) {
    train(whole, a, step, step + 1);
    train(sharded, b, step, step + 1);
    EXPECT_EQ(gradients(sharded.parameters()), gradients(whole.parameters()));
    for (const Tensor& parameter : sharded.parameters())
      EXPECT_EQ(gradients(testing::other_replicas(parameter)).empty(), !parameter.grad().defined());
  }
  EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
}

// The buckets are rebuilt between the first two steps.
TEST_P(ShardedGradients, AccumulatesOverBackwardsWithAndWithoutSums) {
  manual_seed(3);
  const Net net(kFloat64);
  DataParallel whole(copy(net), options(Shard::none)), sharded(copy(net), sharding());
  optim::Adam a(whole.parameters(), {.lr = 0.01}), b(sharded.parameters(), {.lr = 0.01});
  for (int step = 0; step < 4; ++step) {
    for (auto [model, optimizer] : {std::pair(&whole, &a), std::pair(&sharded, &b)}) {
      optimizer->zero_grad(step % 2 == 0);
      loss_of(*model, step).backward();
      {
        const auto guard = model->no_sync();
        loss_of(*model, step + 2).backward();
        loss_of(*model, step + 1).backward();
      }
      for (int more = 0; more < 3; ++more) {
        loss_of(*model, step + more).backward();
        if (step == 1) gradients(model->parameters());  // gathers them
      }
      optimizer->step();
    }
    EXPECT_EQ(gradients(sharded.parameters()), gradients(whole.parameters()));
  }
  EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
  expect_replicas_identical(sharded.parameters());
}

// Only one of three backwards takes the branch: its gradient is sharded again by the rebuilt buckets, or summed again
// with its bucket.
TEST_P(ShardedGradients, GathersWhatAnEarlierBackwardBrought) {
  for (const int branch : {0, 1})
    for (const std::size_t bytes : {300, 600})
      expect_same_gradients(
          [branch](DataParallel<Net>& model) {
            std::vector<std::vector<std::vector<double>>> got;
            for (int i = 0; i < 3; ++i) {
              loss_of(model, 1 + i - branch).backward();
              if (i > 0) got.push_back(gradients(model.parameters()));
            }
            return got;
          },
          bytes);
}

TEST_P(ShardedGradients, LeavesGradientsAloneThatAreNotSummed) {
  expect_same_gradients([](DataParallel<Net>& model) {
    std::vector<std::vector<std::vector<double>>> got;
    for (const int local : {0, 2}) {  // with rows on all devices, and on the first alone
      loss_of(model, 0).backward();
      {
        const auto guard = model.no_sync();
        loss_of(model, local).backward();
      }
      for (const Tensor& parameter : model.parameters())
        for (const Tensor& replica : testing::other_replicas(parameter)) replica.grad();
      gradients(model.parameters());
      loss_of(model, 3).backward();
      got.push_back(gradients(model.parameters()));
    }
    return got;
  });
}

TEST_P(ShardedGradients, ForgetsGradientsThatTheUserSets) {
  expect_same_gradients([](DataParallel<Net>& model) {
    std::vector<std::vector<std::vector<double>>> got;
    for (const bool some : {false, true}) {
      loss_of(model, 1).backward();
      for (Tensor parameter : model.parameters()) parameter.set_grad(some ? ones_like(parameter) : Tensor());
      loss_of(model, 1).backward();
      got.push_back(gradients(model.parameters()));
    }
    return got;
  });
}

// A hook of a parameter gets the new sum by itself; then the earlier sum is added.
TEST_P(ShardedGradients, AccumulateAsBesideAHook) {
  manual_seed(3);
  const Net net;
  std::vector<std::vector<std::vector<double>>> got;
  for (const bool hooked : {false, true}) {
    DataParallel model(copy(net), sharding());
    if (hooked) model.module().last.weight.register_hook([](const Tensor& gradient) { return gradient; });
    for (int i = 0; i < 4; ++i) loss_of(model, i).backward();
    got.push_back(gradients(model.parameters()));
  }
  EXPECT_EQ(got[1], got[0]);
}

// A gradient that was dropped or set is not in the sum that its bucket keeps. (One bucket has all gradients.)
// The hook has the gradient, whole, and then it is dropped; the next backward begins with memory that is whole.
TEST_P(ShardedGradients, AreRightAfterAHookThatFailed) {
  const Tensor x = randn({6, 5}, {.device = "cuda:0"});
  std::vector<std::vector<float>> got;
  for (const DataParallelOptions& with : {options(Shard::none), sharding()}) {
    manual_seed(3);
    DataParallel model(nn::Linear(5, 7, {.bias = false}), with);
    const Tensor weight = model.module().weight;
    const HookHandle hook =
        register_hook(weight, [](const Tensor&) -> Tensor { throw InvalidArgument("from the hook"); });
    EXPECT_THROW(sum(model(x) * 2.0).backward(), InvalidArgument);
    hook.remove();
    sum(model(x) * 2.0).backward();
    got.push_back(weight.grad().to_vector<float>());
  }
  EXPECT_EQ(got[1], got[0]);
}

TEST_P(ShardedGradients, ForgetsAPartOfAnEarlierSum) {
  const auto accumulate = [](DataParallel<Net>& model) {
    for (int i = 0; i < 2; ++i) {
      loss_of(model, 1).backward();
      const auto guard = model.no_sync();
      loss_of(model, 2 + i).backward();
    }
  };
  expect_same_gradients(
      [&](DataParallel<Net>& model) {
        std::vector<std::vector<std::vector<double>>> got;
        for (const bool set : {false, true}) {
          accumulate(model);
          std::vector<Tensor> parameters = model.parameters();
          for (std::size_t i = 0; i < parameters.size(); i += 2)
            parameters[i].set_grad(set ? ones_like(parameters[i]) : Tensor());
          loss_of(model, 4).backward();
          got.push_back(gradients(model.parameters()));
        }
        return got;
      },
      1 << 20);

  DataParallelOptions with = sharding();
  with.buckets.bytes = 1 << 20;
  manual_seed(3);
  const Net net(kFloat64);
  DataParallel model(copy(net), with), fresh(copy(net), with);
  accumulate(model);
  std::vector<Tensor> parameters = model.parameters();
  parameters[0].set_grad(Tensor());
  loss_of(model, 4).backward();
  loss_of(fresh, 4).backward();
  EXPECT_EQ(values(parameters[0].grad()), values(fresh.parameters()[0].grad()));
  EXPECT_NE(values(parameters[1].grad()), values(fresh.parameters()[1].grad()));
}

TEST_P(ShardedGradients, ClipsByTheNormOfAllShares) {
  for (const double p : {2., 1., std::numeric_limits<double>::infinity()}) {
    manual_seed(3);
    const Net net(kFloat64);
    DataParallel whole(copy(net), options(Shard::none)), sharded(copy(net), sharding());
    optim::SGD a(whole.parameters(), {.lr = 0.1}), b(sharded.parameters(), {.lr = 0.1});
    for (int step = 0; step < 4; ++step) {
      std::vector<double> norms;
      for (auto [model, optimizer] : {std::pair(&whole, &a), std::pair(&sharded, &b)}) {
        optimizer->zero_grad();
        loss_of(*model, step).backward();
        norms.push_back(optim::clip_grad_norm_(model->parameters(), 0.01, {.norm_type = p}).item<double>());
      }
      EXPECT_EQ(norms[1], norms[0]);
      EXPECT_EQ(gradients(sharded.parameters()), gradients(whole.parameters()));
      a.step();
      b.step();
    }
    EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
    expect_replicas_identical(sharded.parameters());
  }
}

TEST_P(ShardedGradients, ClipsEveryElementOfGradientsThatWereGathered) {
  manual_seed(3);
  const Net net;
  DataParallel whole(copy(net), options(Shard::none)), sharded(copy(net), sharding());
  for (DataParallel<Net>* model : {&whole, &sharded}) {
    loss_of(*model, 0).backward();
    gradients(model->parameters());
    optim::clip_grad_value_(model->parameters(), 0.001);
  }
  EXPECT_EQ(gradients(sharded.parameters()), gradients(whole.parameters()));
}

INSTANTIATE_TEST_SUITE_P(DevicesAndLevels, ShardedGradients,
                         ::testing::Combine(::testing::Values(2, 3, 5),
                                            ::testing::Values(Shard::optimizer_state, Shard::gradients,
                                                              Shard::parameters)));

}  // namespace
}  // namespace lockstep::sharded
