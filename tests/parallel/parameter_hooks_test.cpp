// Hooks on parameters that live on several devices, and gradients of their gradients: as on one device.
#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/unary.h>
#include <lockstep/optim/sgd.h>

#include "parallel/mlp_job.h"
#include "support/in_processes.h"
#include "support/thrown.h"

namespace lockstep::parameter_hooks {
namespace {

struct Scale : nn::Module<Scale> {
  nn::Parameter weight{ones({1}, {.dtype = kFloat64})}, other{ones({1}, {.dtype = kFloat64})};
  auto members() { return nn::members("weight", weight, "other", other); }
  Tensor forward(const Tensor& x) { return x * weight + x * other * 0.5; }
};
using Model = DataParallel<Scale>;

double number(const Tensor& tensor) { return tensor.detach().to(Device()).to_vector<double>()[0]; }

struct Way {
  int devices;
  bool sharded = false;
  bool accumulates = false;  // runs a backward under no_sync() first
};
const std::vector<Way> kWays = {{1}, {2}, {3}, {5}, {2, true}, {3, true}, {2, false, true}, {3, true, true}};

DataParallelOptions options_of(const Way& way) {
  DataParallelOptions options = {.shard = way.sharded ? Shard::optimizer_state : Shard::none};
  for (int d = 0; d < way.devices; ++d) options.device_ids.push_back(d);
  return options;
}

const std::vector<double> kRows = {1, -2, 3, 4, 0.5, 2, -1};

// The gradients that the hook received; then the gradients and the weights after a step.
std::vector<double> hooked_step(const Way& way) {
  Model model(Scale{}, options_of(way));
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  std::vector<double> seen;
  Tensor weight = model.module().weight;
  register_hook(weight, [&](const Tensor& g) {
    seen.push_back(number(g));
    return g.clamp(-1, 1);
  });
  register_accumulated_hook(weight, [&](const Tensor& leaf) { seen.push_back(number(leaf.grad())); });
  const Tensor x = tensor(kRows).to(model.device());
  for (int i = 0; i < 2; ++i) {
    optimizer.zero_grad();
    if (way.accumulates || way.devices == 1) {
      const auto guard = model.no_sync();
      sum(model(x)).backward();
    } else {
      sum(model(x)).backward();
    }
    sum(square(model(x))).backward();
    optimizer.step();
    seen.push_back(number(weight.grad()));
    seen.push_back(number(model.module().other.grad()));
    seen.push_back(number(weight));
    seen.push_back(number(model(ones({5}, {.dtype = kFloat64, .device = model.device()})).select(0, 4)));
  }
  return seen;
}

TEST(ParameterHooks, SeeTheWholeGradientOnce) {
  const SimulatedDevices devices({.count = 5});
  const std::vector<double> one = hooked_step({1});
  ASSERT_EQ(one[0], 7.5);  // the sum of all rows
  ASSERT_EQ(one[1], 1);    // the hook's result
  for (const Way& way : kWays) {
    const std::vector<double> got = hooked_step(way);
    ASSERT_EQ(got.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(got[i], one[i], 1e-12) << i << " on " << way.devices << (way.sharded ? ", sharded" : "");
  }
}

TEST(ParameterHooks, SeeTheGradientOfAllProcesses) {
  const SimulatedDevices devices({.count = 4});
  for (const bool sharded : {false, true})
    for (const std::exception_ptr& each : testing::in_processes(2, [&](const World& world) {
           const int first = 2 * world.rank().value();
           Model model(Scale{}, {.device_ids = {first, first + 1},
                                 .shard = sharded ? Shard::optimizer_state : Shard::none,
                                 .world = world,
                                 .loss = ProcessLoss::sum});
           std::vector<double> seen;
           register_hook(model.module().weight, [&](const Tensor& g) {
             seen.push_back(number(g));
             return g.clamp(-1, 1);
           });
           const Tensor x = tensor(kRows).narrow(0, world.is_first() ? 0 : 4, world.is_first() ? 4 : 3);
           for (int i = 0; i < 2; ++i) sum(model(x.to(model.device()))).backward();
           EXPECT_EQ(seen, (std::vector<double>{7.5, 7.5}));
           EXPECT_EQ(number(model.module().weight.grad()), 2);
           EXPECT_EQ(number(model.module().other.grad()), 7.5);
         }))
      EXPECT_FALSE(each) << testing::message_of<Error>(each);
}

TEST(ParameterHooks, ThatThrowLeaveTheGradientFromBefore) {
  const SimulatedDevices devices({.count = 3});
  Model model(Scale{});
  const Tensor x = tensor(kRows).to(model.device());
  sum(model(x)).backward();
  HookHandle hook = register_hook(model.module().weight, [](const Tensor&) -> Tensor { throw InvalidArgument("no"); });
  const std::string message = testing::thrown<InvalidArgument>([&] { sum(model(x)).backward(); });
  EXPECT_NE(message.find("in a hook of a parameter"), std::string::npos) << message;
  EXPECT_EQ(number(model.module().weight.grad()), 7.5);
  hook.remove();
  sum(model(x)).backward();
  EXPECT_EQ(number(model.module().weight.grad()), 15);
}

// The first loss is c (w + v/2)^2 with c = 225; the second is the square of its gradient in w, (2 c (w + v/2))^2.
TEST(GradientsOfGradients, OfParametersOnSeveralDevicesKeepTheirGraph) {
  const SimulatedDevices devices({.count = 5});
  for (const Way& way : kWays) {
    Model model(Scale{}, options_of(way));
    optim::SGD optimizer(model.parameters(), {.lr = 0.01});
    Tensor weight = model.module().weight;
    const Tensor x = tensor({30., 0., 0., 0.}).to(kFloat64).to(model.device());
    const Tensor first = mean(square(model(x)));  // 225 (w + v/2)^2
    first.backward(Tensor(), true, true);
    const Tensor g = weight.grad();
    EXPECT_NEAR(number(g), 2 * 225 * 1.5, 1e-9) << way.devices;
    ASSERT_TRUE(g.requires_grad());
    sum(square(g)).backward();  // (450 (w + v/2))^2
    EXPECT_NEAR(number(weight.grad()), 675 + 2 * 450. * 450 * 1.5, 1e-6) << way.devices;
    EXPECT_NEAR(number(model.module().other.grad()), 337.5 + 450. * 450 * 1.5, 1e-6) << way.devices;
    optimizer.step();
    const double expected = 1 - 0.01 * (675 + 2 * 450. * 450 * 1.5);
    EXPECT_NEAR(number(weight), expected, 1e-6);
    const double v = 1 - 0.01 * (337.5 + 450. * 450 * 1.5);
    EXPECT_NEAR(number(model(ones({5}, {.dtype = kFloat64, .device = model.device()})).select(0, 4)), expected + v / 2,
                1e-6);
    model.zero_grad();  // on one device a gradient holds its graph, which holds the parameters
  }
}

struct Cubed : nn::Module<Cubed> {
  nn::Parameter w{ones({2}, {.dtype = kFloat64})};
  auto members() { return nn::members("w", w); }
  Tensor forward(const Tensor& x) { return x * w * w * w; }
};

// The sum over both passes, of 2 rows of 1 and 2 rows of 3: 3 w^2 (2 + 6), whose derivative is 6 w (2 + 6).
TEST(GradientsOfGradients, OfSeveralBackwardsKeepAllGraphs) {
  const SimulatedDevices devices({.count = 5});
  for (const Way& way : kWays) {
    DataParallel model(Cubed{}, options_of(way));
    const Tensor x = ones({2, 2}, {.dtype = kFloat64}).to(model.device());
    sum(model(x)).backward(Tensor(), true, true);
    sum(model(x * 3.)).backward(Tensor(), true, true);
    const Tensor g = model.module().w.grad();
    EXPECT_NEAR(number(g), 24, 1e-12) << way.devices;
    model.zero_grad();
    sum(g).backward();
    EXPECT_NEAR(number(model.module().w.grad()), 48, 1e-12) << way.devices;
  }
}

TEST(ParameterHooks, ThatThrowEndOtherProcessesToo) {
  const SimulatedDevices devices({.count = 2});
  const auto thrown = testing::in_processes(2, [&](const World& world) {
    Model model(Scale{}, {.device_ids = {world.rank().value()}, .world = world});
    register_hook(model.module().weight, [&](const Tensor& g) {
      if (!world.is_first()) throw InvalidArgument("no");
      return g;
    });
    const Tensor x = tensor(kRows).to(model.device());
    for (int i = 0; i < 3; ++i) sum(model(x)).backward();
  });
  EXPECT_NE(testing::message_of<InvalidArgument>(thrown[1]).find("no"), std::string::npos);
  EXPECT_NE(testing::message_of<CollectiveError>(thrown[0]).find("a hook of a parameter failed in process 1"),
            std::string::npos)
      << testing::message_of<CollectiveError>(thrown[0]);
}

TEST(GradientsOfGradients, ThatNobodyUsesTrainAsWithout) {
  const SimulatedDevices devices({.count = 3});
  const auto train = [](const Way& way, bool keeps) {
    Model model(Scale{}, options_of(way));
    optim::SGD optimizer(model.parameters(), {.lr = 0.01});
    const Tensor x = tensor(kRows).to(model.device());
    for (int i = 0; i < 3; ++i) {
      if (i == 1) optimizer.zero_grad();
      sum(square(model(x))).backward(Tensor(), keeps, keeps);
      optimizer.step();
    }
    model.zero_grad();  // the gradients hold their graphs, which hold the parameters
    return std::pair(number(model.module().weight), number(model.module().other));
  };
  const auto one = train({1}, false);
  for (const int count : {1, 2, 3}) {
    const auto got = train({count}, true);
    EXPECT_NEAR(got.first, one.first, 1e-12);
    EXPECT_NEAR(got.second, one.second, 1e-12);
  }
}

}  // namespace
}  // namespace lockstep::parameter_hooks
