// Captured steps of models whose parameters are divided between devices: the bits of eager steps, and of steps without
// sharding.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/checkpoint.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/functional.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/transformer.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/captured_step.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/captured.h"

namespace lockstep::train::captured_shards {
namespace {

using testing::thrown;

constexpr int kSteps = 14;
constexpr std::int64_t kWidth = 16, kRows = 10;

// Eight units or so, with two buffers on each device.
DataParallelOptions options(int devices, Shard shard) {
  std::vector<int> ids;
  for (int d = 0; d < devices; ++d) ids.push_back(d);
  return {.device_ids = ids, .buckets = {.first_bytes = 64, .bytes = 1100}, .shard = shard};
}

struct Deep : nn::Module<Deep> {
  nn::Linear in{6, kWidth}, out{kWidth, 3};
  std::vector<nn::Linear> middle;
  nn::LayerNorm norm{kWidth};
  nn::Dropout dropout{0.2};
  bool checkpoints = false;

  Deep() {
    for (int i = 0; i < 5; ++i) middle.emplace_back(kWidth, kWidth);
  }
  auto members() {
    return nn::members("in", in, "middle", middle, "norm", norm, "dropout", dropout, "out", out, "checkpoints",
                       checkpoints);
  }
  Tensor body(Tensor h) {
    for (nn::Linear& layer : middle) h = relu(layer(h)) + h * 0.5;
    return h;
  }
  Tensor forward(const Tensor& x) {
    Tensor h = norm(in(x));
    h = checkpoints ? checkpoint([this](const Tensor& given) { return body(given); }, h) : body(h);
    return out(dropout(h));
  }
};

// Tokens, attention, and a head that shares the embedding's weight: two uses of a unit far apart.
struct SmallGpt : nn::Module<SmallGpt> {
  nn::Embedding tokens{12, kWidth};
  std::vector<nn::TransformerEncoderLayer> layers;

  SmallGpt() {
    for (int i = 0; i < 2; ++i)
      layers.emplace_back(kWidth, 2, nn::TransformerLayerOptions{.dim_feedforward = 24, .batch_first = true});
  }
  auto members() { return nn::members("tokens", tokens, "layers", layers); }
  Tensor forward(const Tensor& ids) {
    Tensor h = tokens(ids);
    for (nn::TransformerEncoderLayer& layer : layers) h = layer(h);
    return matmul(h, tokens.weight.t());
  }
};

struct Way {
  bool captured;
  Shard shard;
};
constexpr Way kCaptured = {true, Shard::parameters}, kEager = {false, Shard::parameters}, kWhole = {false, Shard::none};

struct Loop {
  Loop(int devices, Shard shard, bool uses_adam) : model(Deep(), options(devices, shard)) {
    if (uses_adam)
      optimizer = std::make_unique<optim::AdamW>(model.parameters(), optim::AdamWOptions{.lr = 0.02});
    else
      optimizer = std::make_unique<optim::SGD>(model.parameters(), optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
  }
  Tensor loss_of(const Tensor& x, const Tensor& y) { return nn::functional::mse_loss(model(x), y); }
  Deep& net() { return model.module(); }
  void look() {
    bits.add(model.state_dict());
    bits.add(optimizer->state_dict());
    for (const Tensor& parameter : model.parameters())
      if (const Tensor gradient = parameter.grad(); gradient.defined()) bits.add(gradient);
  }

  DataParallel<Deep> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  Bits bits, versions;
};

using Body = std::function<Tensor(Loop&, const Tensor& x, const Tensor& y)>;
using Act = std::function<void(Loop&, int)>;

Tensor plain(Loop& loop, const Tensor& x, const Tensor& y) {
  loop.optimizer->zero_grad();
  const Tensor loss = loop.loss_of(x, y);
  loss.backward();
  loop.optimizer->step();
  return loss.detach();
}

struct Plan {
  Body body = plain;
  Act before = [](Loop&, int) {}, after = [](Loop&, int) {};  // each step, outside of it
  bool uses_adam = true;
  bool looks = false;  // after each step
  std::int64_t rows = kRows;
  CapturedStepOptions options = {};
};

struct Result {
  Bits bits, versions;
  int launches;  // replayed steps
};

Result run(int devices, const Way& way, const Plan& plan) {
  const TestDevices there(devices);
  GeneratorState random{.seed = 5};
  const GeneratorGuard guard(random);
  Loop loop(devices, way.shard, plan.uses_adam);
  int calls = 0;
  const auto function = [&](const Tensor& x, const Tensor& y) {
    ++calls;
    return plan.body(loop, x, y);
  };
  CapturedStep step(function, plan.options);
  for (int i = 0; i < kSteps; ++i) {
    plan.before(loop, i);
    const Tensor x = randn({plan.rows, 6}), y = randn({plan.rows, 3});
    loop.bits.add(way.captured ? step(x, y) : function(x.to(Device::cuda(0)), y.to(Device::cuda(0))));
    plan.after(loop, i);
    if (plan.looks) loop.look();
    for (const Tensor& parameter : loop.model.parameters()) loop.versions.values.push_back(float(parameter.version()));
  }
  loop.look();
  return {loop.bits, loop.versions, kSteps - calls};
}

class CapturedShards : public ::testing::TestWithParam<int> {
 protected:
  static void expect_as_eager(const Plan& plan, int least_launches = 6) {
    const Result captured = run(GetParam(), kCaptured, plan), eager = run(GetParam(), kEager, plan);
    EXPECT_TRUE(captured.bits == eager.bits);
    EXPECT_TRUE(captured.versions == eager.versions);
    EXPECT_TRUE(eager.bits == run(GetParam(), kWhole, plan).bits);
    EXPECT_GE(captured.launches, least_launches) << "the host took almost all steps itself";
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, CapturedShards, ::testing::Values(1, 2, 3, 5));

TEST_P(CapturedShards, AreUpdatedByAdamWithClipping) {
  expect_as_eager({.body = [](Loop& loop, const Tensor& x, const Tensor& y) {
    loop.optimizer->zero_grad();
    const Tensor loss = loop.loss_of(x, y);
    loss.backward();
    optim::clip_grad_norm_(loop.model.parameters(), 0.5);
    loop.optimizer->step();
    return loss.detach();
  }});
}

TEST_P(CapturedShards, AreUpdatedWithMomentum) { expect_as_eager({.uses_adam = false}); }

TEST_P(CapturedShards, CanBeLookedAtAfterEachStep) { expect_as_eager({.looks = true}); }

// Some devices have no rows, and use no unit.
TEST_P(CapturedShards, AreUpdatedOnDevicesWithoutRows) { expect_as_eager({.rows = 2}); }

TEST_P(CapturedShards, AddGradientsOfTwoBackwards) {
  for (const bool sums_each_time : {false, true})
    expect_as_eager({.body = [sums_each_time](Loop& loop, const Tensor& x, const Tensor& y) {
      loop.optimizer->zero_grad();
      {
        std::optional<DataParallel<Deep>::NoSync> no_sync;
        if (!sums_each_time) no_sync.emplace(loop.model);
        loop.loss_of(x.narrow(0, 0, 4), y.narrow(0, 0, 4)).backward();
      }
      const Tensor loss = loop.loss_of(x.narrow(0, 4, 6), y.narrow(0, 4, 6));
      loss.backward();
      loop.optimizer->step();
      return loss.detach();
    }});
}

TEST_P(CapturedShards, AreRecomputedInCheckpoints) {
  expect_as_eager({.before = [](Loop& loop, int) { loop.net().checkpoints = true; }});
}

TEST_P(CapturedShards, TakeChangesByHand) {
  expect_as_eager({.before = [](Loop& loop, int i) {
    const NoGrad guard;
    if (i == 6) loop.net().middle[1].weight.mul_(0.5);
    if (i == 9) loop.net().out.weight[1] = ones({kWidth}, Device::cuda(0));
    if (i == 9) loop.net().in.bias->fill_(0.25);
  }});
}

TEST_P(CapturedShards, TakeLoadedStates) {
  StateDict saved;
  expect_as_eager({.before = [&saved](Loop& loop, int i) {
    if (i == 2) {
      saved = {};
      for (const auto& [name, value] : loop.model.state_dict()) saved.add(name, value.detach().to(Device()).clone());
    }
    if (i == 7) loop.model.load_state_dict(saved);
  }});
}

TEST_P(CapturedShards, AreUsedByOthersBetweenLaunches) {
  expect_as_eager({.after = [](Loop& loop, int) {
    const NoGrad guard;
    loop.model.eval();
    loop.bits.add(loop.model(ones({7, 6})));
    loop.model.train();
    loop.bits.add(loop.net().middle[0].weight + loop.net().middle[4].weight);
  }});
}

TEST_P(CapturedShards, MayBeUpdatedByTheHost) {
  expect_as_eager({.body =
                       [](Loop& loop, const Tensor& x, const Tensor& y) {
                         const Tensor loss = loop.loss_of(x, y);
                         loss.backward();
                         return loss.detach();
                       },
                   .before = [](Loop& loop, int) { loop.optimizer->zero_grad(); },
                   .after = [](Loop& loop, int) { loop.optimizer->step(); }});
}

// The change stays in a buffer until the end of the step.
TEST_P(CapturedShards, MayBeChangedInPlaceByTheStep) {
  expect_as_eager({.body = [](Loop& loop, const Tensor& x, const Tensor& y) {
    const Tensor loss = plain(loop, x, y);
    const NoGrad guard;
    loop.net().middle[2].weight.clamp_(-0.1, 0.1);
    return loss;
  }});
}

// One operation uses more units than there are buffers. In the capture the others get memory of the graph.
TEST_P(CapturedShards, MayBeUsedAllAtOnce) {
  expect_as_eager({.body =
                       [](Loop& loop, const Tensor& x, const Tensor& y) {
                         loop.optimizer->zero_grad();
                         std::vector<Tensor> all;
                         for (const nn::Linear& layer : loop.net().middle) all.push_back(layer.weight);
                         const Tensor loss = loop.loss_of(x, y) + cat(all).square().mean();
                         loss.backward();
                         loop.optimizer->step();
                         return loss.detach();
                       },
                   .looks = true});
}

// Buckets are rebuilt in the second step, here in the capture.
TEST_P(CapturedShards, MoveInTheCapture) { expect_as_eager({.options = {.eager_steps = 1}}); }

TEST_P(CapturedShards, AreReplacedBetweenLaunches) {
  expect_as_eager({.before =
                       [](Loop& loop, int i) {
                         if (i == 6) loop.net().out.weight.reset(full({3, kWidth}, 0.125, Device::cuda(0)));
                       }},
                  4);
}

TEST_P(CapturedShards, AreFrozenAndThawed) {
  expect_as_eager({.before =
                       [](Loop& loop, int i) {
                         if (i == 5) loop.net().middle[1].weight.requires_grad_(false);
                         if (i == 10) loop.net().middle[1].weight.requires_grad_(true);
                       }},
                  2);
}

TEST_P(CapturedShards, OfAGptAreEagerOnes) {
  const auto trained = [](const Way& way) {
    const TestDevices there(GetParam());
    GeneratorState random{.seed = 8};
    const GeneratorGuard guard(random);
    DataParallel model(SmallGpt(), options(GetParam(), way.shard));
    optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
    const auto function = [&](const Tensor& ids, const Tensor& next) {
      optimizer.zero_grad();
      const Tensor loss = nn::functional::cross_entropy(model(ids).flatten(0, 1), next.flatten());
      loss.backward();
      optim::clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      return loss.detach();
    };
    CapturedStep step(function);
    Bits bits;
    for (int i = 0; i < 9; ++i) {
      const Tensor ids = randint(0, 12, {6, 5}), next = randint(0, 12, {6, 5});
      bits.add(way.captured ? step(ids, next) : function(ids.to(Device::cuda(0)), next.to(Device::cuda(0))));
    }
    EXPECT_EQ(step.is_captured(), way.captured);
    bits.add(model.state_dict());
    bits.add(optimizer.state_dict());
    return bits;
  };
  const Bits eager = trained(kEager);
  EXPECT_TRUE(trained(kCaptured) == eager);
  EXPECT_TRUE(trained(kWhole) == eager);
}

// The captured evaluation is older than the units' present layout.
TEST_P(CapturedShards, AreEvaluatedByAnotherCapturedStep) {
  const auto results = [](const Way& way) {
    const TestDevices there(GetParam());
    GeneratorState random{.seed = 6};
    const GeneratorGuard guard(random);
    Loop loop(GetParam(), way.shard, true);
    const auto train = [&](const Tensor& x, const Tensor& y) { return plain(loop, x, y); };
    const auto evaluate = [&](const Tensor& x) {
      const NoGrad no_gradients;
      return loop.model(x);
    };
    CapturedStep training(train);
    CapturedStep evaluation(evaluate);
    const auto look = [&] {
      loop.model.eval();
      const Tensor x = randn({6, 6});
      loop.bits.add(way.captured ? evaluation(x) : evaluate(x.to(Device::cuda(0))));
      loop.model.train();
    };
    for (int i = 0; i < 4; ++i) look();
    for (int i = 0; i < 9; ++i) {
      const Tensor x = randn({kRows, 6}), y = randn({kRows, 3});
      loop.bits.add(way.captured ? training(x, y) : train(x.to(Device::cuda(0)), y.to(Device::cuda(0))));
      for (int k = 0; k < 2; ++k) look();
    }
    EXPECT_EQ(training.is_captured() && evaluation.is_captured(), way.captured);
    loop.look();
    return loop.bits;
  };
  const Bits eager = results(kEager);
  EXPECT_TRUE(results(kCaptured) == eager);
  EXPECT_TRUE(results(kWhole) == eager);
}

// A launch overwrites buffers that work on another stream may still read. (That work and a captured backward may run at
// the same time: both only read the parameters.)
TEST_P(CapturedShards, AreReadOnAnotherStreamDuringALaunch) {
  expect_as_eager({
      .body =
          [](Loop& loop, const Tensor& x, const Tensor& y) {
            const Tensor loss = loop.loss_of(x, y);
            loss.backward();
            return loss.detach();
          },
      .before =
          [](Loop& loop, int i) {
            loop.optimizer->zero_grad();
            if (i < 4) return;
            const NoGrad no_gradients;
            const Device first = Device::cuda(0);
            const Stream side = Stream::from_pool(first);
            side.wait(current_stream(first).record());
            const StreamGuard on(side);
            for (const nn::Linear& layer : loop.net().middle) layer.weight.square().sum();
          },
  });
}

TEST_P(CapturedShards, AreLeftByAStepThatThrowsAsByAnEagerOne) {
  const auto state_after = [](const Way& way) {
    const TestDevices there(GetParam());
    GeneratorState random{.seed = 5};
    const GeneratorGuard guard(random);
    Loop loop(GetParam(), way.shard, true);
    int calls = 0;
    const auto function = [&](const Tensor& x, const Tensor& y) {
      const Tensor loss = plain(loop, x, y);
      {
        const NoGrad no_gradients;
        loop.net().middle[3].weight.mul_(0.9);
      }
      if (++calls == 3) throw std::runtime_error("late");
      return loss;
    };
    CapturedStep step(function);
    for (int i = 0; i < 10; ++i) {
      const Tensor x = randn({kRows, 6}), y = randn({kRows, 3});
      try {
        way.captured ? step(x, y) : function(x.to(Device::cuda(0)), y.to(Device::cuda(0)));
        EXPECT_NE(i, 2);
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(i, 2) << error.what();
      }
      loop.look();
    }
    EXPECT_EQ(step.is_captured(), way.captured);
    return loop.bits;
  };
  const Bits eager = state_after(kEager);
  EXPECT_TRUE(state_after(kCaptured) == eager);
  EXPECT_TRUE(state_after(kWhole) == eager);
}

// The graph is dropped, and the units go on with the buffers that it used.
TEST_P(CapturedShards, OutliveTheGraph) {
  const auto results = [](int captured) {
    const TestDevices there(GetParam());
    GeneratorState random{.seed = 4};
    const GeneratorGuard guard(random);
    Loop loop(GetParam(), Shard::parameters, true);
    auto function = [&](const Tensor& x, const Tensor& y) { return plain(loop, x, y); };
    for (int round = 0; round < 2; ++round) {
      std::optional<CapturedStep<decltype(function)>> step(std::in_place, function);
      for (int i = 0; i < 8; ++i) {
        if (i == captured) step.reset();
        const Tensor x = randn({kRows, 6}), y = randn({kRows, 3});
        loop.bits.add(step ? (*step)(x, y) : function(x.to(Device::cuda(0)), y.to(Device::cuda(0))));
      }
    }
    loop.look();
    return loop.bits;
  };
  EXPECT_TRUE(results(6) == results(0));
}

TEST(CapturedShardsMemory, IsNotAllocatedByALaunch) {
  const TestDevices there(2);
  Loop loop(2, Shard::parameters, true);
  CapturedStep step([&](const Tensor& x, const Tensor& y) { return plain(loop, x, y); });
  const Tensor x = ones({kRows, 6}, Device::cuda(0)), y = ones({kRows, 3}, Device::cuda(0));
  for (int i = 0; i < 4; ++i) step(x, y);
  ASSERT_TRUE(step.is_captured());
  const std::uint64_t before[] = {memory_stats(Device::cuda(0)).allocations, memory_stats(Device::cuda(1)).allocations};
  for (int i = 0; i < 5; ++i) step(x, y);
  for (int d = 0; d < 2; ++d) EXPECT_EQ(memory_stats(Device::cuda(d)).allocations, before[d]);
}

TEST(CapturedShardsRefusal, NamesUnitsThatNoEagerStepHasUsed) {
  const TestDevices there(2);
  DataParallel model(Deep(), options(2, Shard::parameters));
  int calls = 0;
  Tensor sum = zeros({}, Device::cuda(0));
  CapturedStep step([&](const Tensor& x) {
    const NoGrad guard;
    sum.add_(x.sum());
    if (++calls == 3) sum.add_(model.module().out.weight.sum());
  });
  const Tensor x = ones({2, 6}, Device::cuda(0));
  for (int i = 0; i < 2; ++i) step(x);
  model.module().out.weight.sum();
  const std::string error = thrown<InvalidArgument>([&] { step(x); });
  EXPECT_NE(error.find("sharded parameters (Shard::parameters) that the eager step before the capture has used"),
            std::string::npos)
      << error;
  step(x);  // eagerly
  EXPECT_EQ(model.module().out.weight.sum().dim(), 0);
}

}  // namespace
}  // namespace lockstep::train::captured_shards
