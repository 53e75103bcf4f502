// Shard::parameters under autocast: parameters come to a device in 16 bits, and training gives the same bits as without
// sharding.
#include <gtest/gtest.h>

#include <tuple>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/checkpoint.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/functional.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/grad_scaler.h>
#include <lockstep/optim/sgd.h>

#include "core/text.h"
#include "parallel/sharded.h"

namespace lockstep::sharded_autocast {
namespace {

using sharded::gradients;
using sharded::options;
using sharded::values;

// A norm's parameters are used in float32 and lie in units with weights, which are used in 16 bits. The table is used
// in both.
struct Net : nn::Module<Net> {
  nn::Embedding table{23, 20};
  nn::Linear first{20, 89};
  nn::LayerNorm norm{{89}};
  nn::Linear second{89, 20}, never{3, 3};
  bool checkpointed = false;
  auto members() {
    return nn::members("table", table, "first", first, "norm", norm, "second", second, "never", never, "checkpointed",
                       checkpointed);
  }
  Tensor block(const Tensor& x) { return x + second(gelu(norm(first(x)))); }
  Tensor forward(const Tensor& tokens) {
    Tensor x = table(tokens);
    for (int i = 0; i < 2; ++i)
      x = checkpointed ? checkpoint([this](const Tensor& y) { return block(y); }, x) : block(x);
    return matmul(x, table.weight.transpose(0, 1)) + matmul(x, first.weight.transpose(0, 1)).slice(-1, 0, 23);
  }
};

Net made(bool checkpointed = false) {
  manual_seed(3);
  Net net;
  net.checkpointed = checkpointed;
  return net;
}

Tensor tokens(int step) {
  manual_seed(std::uint64_t(step) + 20);
  return randint(0, 23, {std::vector<std::int64_t>{10, 4, 1, 7}[std::size_t(step) % 4], 6});
}

Tensor loss_of(DataParallel<Net>& model, int step, DType dtype) {
  const Autocast region(dtype);
  const Tensor input = tokens(step).to(model.device());
  return nn::functional::cross_entropy(model(input).flatten(0, 1), input.flatten());
}

void change_by_hand(DataParallel<Net>& model, int step) {
  const NoGrad guard;
  Net& net = model.module();
  if (step == 2) net.first.weight.mul_(0.5);
  if (step == 3) net.norm.weight->copy_(ones({1}) * 1.5);
  if (step == 5) net.second.weight.select(0, 3).fill_(0.25);
  if (step == 6)
    for (const Tensor& parameter : model.parameters()) Tensor(parameter).add_(0.01);
}

std::vector<std::vector<double>> trained(const Net& net, Shard shard, DType dtype) {
  DataParallel model(copy(net), options(shard));
  optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
  optim::GradScaler scaler({.init_scale = 1e20, .backoff_factor = 1e-17, .enabled = dtype == kFloat16});
  std::vector<std::vector<double>> found;
  for (int step = 0; step < 8; ++step) {
    optimizer.zero_grad();
    change_by_hand(model, step);
    if (step == 4) {
      const auto guard = model.no_sync();
      scaler.scale(loss_of(model, step + 1, dtype)).backward();
    }
    scaler.scale(loss_of(model, step, dtype)).backward();
    if (step == 5) {  // all units go, but no update follows
      optim::clip_grad_norm_(model.parameters(), 1);
      found.push_back(values(loss_of(model, step + 1, dtype)));
    }
    if (step % 2 == 0) scaler.unscale_(optimizer);
    const bool stepped = scaler.step(optimizer);
    scaler.update();
    found.push_back({double(stepped)});
    if (!stepped) continue;  // the gradients are not finite
    for (auto& each : gradients(model.parameters())) found.push_back(std::move(each));
    if (step % 3 == 2) {
      const NoGrad guard;
      model.eval();
      found.push_back(values(loss_of(model, step, dtype)));
      found.push_back(values(model(tokens(step).to(model.device()))));
      model.train();
    }
  }
  for (auto& each : values(model.state_dict())) found.push_back(std::move(each));
  for (auto& each : values(optimizer.state_dict())) found.push_back(std::move(each));
  sharded::expect_replicas_identical(model.parameters());
  return found;
}

class ShardedAutocast : public ::testing::TestWithParam<std::tuple<int, DType, bool>> {};

TEST_P(ShardedAutocast, TrainsTheSameBits) {
  const auto [devices, dtype, checkpointed] = GetParam();
  const SimulatedDevices simulated({.count = devices, .max_delay_us = 10});
  const Net net = made(checkpointed);
  EXPECT_EQ(trained(net, Shard::parameters, dtype), trained(net, Shard::none, dtype));
}

// The buckets of docs/sharding.md's tests hold few parameters; with one bucket all are used in both dtypes.
TEST(ShardedAutocast, TrainsTheSameBitsInOneUnit) {
  const SimulatedDevices simulated({.count = 3, .max_delay_us = 10});
  std::vector<std::vector<std::vector<double>>> found;
  for (const Shard shard : {Shard::none, Shard::parameters}) {
    DataParallel model(made(), {.shard = shard});
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      change_by_hand(model, step);
      loss_of(model, step, kBFloat16).backward();
      optimizer.step();
    }
    found.push_back(values(model.parameters()));
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST(ShardedAutocast, UsesBothDtypesInOneStep) {
  const SimulatedDevices simulated({.count = 2, .max_delay_us = 10});
  std::vector<std::vector<std::vector<double>>> found;
  for (const Shard shard : {Shard::none, Shard::parameters}) {
    DataParallel model(made(), options(shard));
    optim::SGD optimizer(model.parameters(), {.lr = 0.01});
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      Tensor loss;
      {
        const Autocast outer(kBFloat16);
        loss = loss_of(model, step, kFloat16) + loss_of(model, step, kBFloat16);
        const NoAutocast none;
        loss = loss + mean(square(model(tokens(step).to(model.device())))) * 0.01;
      }
      loss.backward();
      optimizer.step();
    }
    found.push_back(values(model.parameters()));
  }
  EXPECT_EQ(found[0], found[1]);
}

// Frozen parameters stay in their units until the model is made again.
TEST(ShardedAutocast, UsesFrozenParameters) {
  const SimulatedDevices simulated({.count = 2, .max_delay_us = 10});
  std::vector<std::vector<std::vector<double>>> found;
  for (const Shard shard : {Shard::none, Shard::parameters}) {
    DataParallel model(made(), options(shard));
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    for (int step = 0; step < 6; ++step) {
      if (step == 2) model.module().first.requires_grad_(false);
      if (step == 4) model.module().first.requires_grad_(true);
      optimizer.zero_grad();
      loss_of(model, step, kBFloat16).backward();
      optimizer.step();
    }
    found.push_back(values(model.parameters()));
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST(ShardedAutocast, ConvertsParametersOf16Bits) {
  const SimulatedDevices simulated({.count = 3, .max_delay_us = 10});
  manual_seed(3);
  const sharded::Net net(kBFloat16);
  std::vector<std::vector<std::vector<double>>> found;
  for (const Shard shard : {Shard::none, Shard::parameters}) {
    DataParallel model(copy(net), options(shard));
    optim::SGD optimizer(model.parameters(), {.lr = 0.01});
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      Tensor loss;
      {
        const Autocast region(step % 2 == 0 ? kFloat16 : kBFloat16);
        loss = sharded::loss_of(model, step);
      }
      loss.backward();
      optimizer.step();
    }
    found.push_back(values(model.parameters()));
  }
  EXPECT_EQ(found[0], found[1]);
}

// Forward keeps no 16-bit copy. So after a change of the parameter, backward cannot use the value that forward used.
TEST(ShardedAutocast, RefusesABackwardAfterAChange) {
  const SimulatedDevices simulated({.count = 2});
  DataParallel model(made(), options(Shard::parameters));
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const Tensor first = loss_of(model, 0, kBFloat16), second = loss_of(model, 1, kBFloat16);
  first.backward();
  optimizer.step();
  EXPECT_THROW(second.backward(), AutogradError);
  const Tensor third = loss_of(model, 2, kBFloat16);
  {
    const NoGrad guard;
    model.module().second.weight.mul_(0.5);
  }
  EXPECT_THROW(third.backward(), AutogradError);
}

TEST(ShardedAutocast, RefusesABackwardAfterAnotherModelTookTheParameters) {
  const SimulatedDevices simulated({.count = 2});
  DataParallel former(made(), options(Shard::parameters));
  const Tensor loss = loss_of(former, 0, kBFloat16);
  DataParallel model(std::move(former.module()), options(Shard::none));
  EXPECT_THROW(loss.backward(), Error);
}

TEST(ShardedAutocast, GoesWithItsModelAfterForward) {
  const SimulatedDevices simulated({.count = 3, .max_delay_us = 10});
  for (int i = 0; i < 20; ++i) {
    DataParallel model(made(), options(Shard::parameters));
    loss_of(model, i, kBFloat16);
  }
  for (int d = 0; d < 3; ++d) synchronize(Device::cuda(d));
}

TEST(ShardedAutocast, LeavesNoMemoryInUse) {
  const SimulatedDevices simulated({.count = 2});
  const std::vector<std::size_t> before = testing::memory_in_use(2);
  trained(made(), Shard::parameters, kFloat16);
  EXPECT_EQ(testing::memory_in_use(2), before);
}

// Without a pass, on the first device: the 16-bit values follow at once.
TEST(ShardedAutocast, TakesAChangeByHandAtOnce) {
  const SimulatedDevices simulated({.count = 2});
  DataParallel model(made(), {.shard = Shard::parameters});  // one unit
  loss_of(model, 0, kBFloat16).backward();
  const NoGrad guard;
  const Autocast region(kBFloat16);
  const Tensor x = ones({1, 89}, {.device = "cuda:0"});
  Tensor weight = model.module().second.weight;
  const auto before = values(linear(x, weight));
  weight.mul_(2);
  auto twice = before;
  for (double& each : twice) each *= 2;
  EXPECT_EQ(values(linear(x, weight)), twice);
}

// A stream that has failed skips conversions too.
TEST(ShardedAutocast, ConvertsAgainAfterAFailure) {
  int failures = 0;
  for (int nth = 1; nth <= 24; ++nth) {
    SimulatedDevices simulated({.count = 2, .max_delay_us = 10});
    DataParallel whole(made(), options(Shard::none)), sharded(made(), options(Shard::parameters));
    optim::SGD a(whole.parameters(), {.lr = 0.01}), b(sharded.parameters(), {.lr = 0.01});
    const auto step = [](DataParallel<Net>& model, optim::SGD& optimizer, int number) {
      optimizer.zero_grad();
      loss_of(model, number, kBFloat16).backward();
      optimizer.step();
    };
    for (int i = 0; i < 3; ++i) step(whole, a, i), step(sharded, b, i);
    for (const bool copies : {true, false}) {
      step(whole, a, 3), step(sharded, b, 3);
      for (int d = 0; d < 2; ++d) synchronize(Device::cuda(d));
      const Fault fault = {.device = nth % 2, .nth = std::uint64_t(nth + 1) / 2};
      copies ? simulated.fault().fail_copy(fault) : simulated.fault().fail_launch(fault);
      try {
        loss_of(sharded, 3, kBFloat16).backward();
        for (int d = 0; d < 2; ++d) synchronize(Device::cuda(d));
      } catch (const Error&) {
        ++failures;
      }
      simulated.fault().clear();
      for (int d = 0; d < 2; ++d) try {
          synchronize(Device::cuda(d));
        } catch (const Error&) {
        }
      b.zero_grad();
      EXPECT_EQ(loss_of(sharded, 3, kBFloat16).item(), loss_of(whole, 3, kBFloat16).item()) << nth << ' ' << copies;
      EXPECT_EQ(values(sharded.parameters()), values(whole.parameters())) << nth << ' ' << copies;
    }
  }
  EXPECT_GT(failures, 24);
}

INSTANTIATE_TEST_SUITE_P(Dtype, ShardedAutocast,
                         ::testing::Combine(::testing::Values(2, 3, 5), ::testing::Values(kBFloat16, kFloat16),
                                            ::testing::Bool()),
                         [](const auto& way) {
                           return text(std::get<0>(way.param), "Devices_", name(std::get<1>(way.param)),
                                       std::get<2>(way.param) ? "_checkpointed" : "");
                         });

}  // namespace
}  // namespace lockstep::sharded_autocast
