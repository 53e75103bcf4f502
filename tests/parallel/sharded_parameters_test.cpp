// Each level of sharding: training gives the same bits as without, and each device holds what the documentation says.
#include <gtest/gtest.h>

#include <tuple>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/memory_plan.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/trace.h>

#include "core/text.h"
#include "optim/cases.h"
#include "parallel/sharded.h"
#include "support/test_devices.h"

namespace lockstep::sharded {
namespace {

class Levels : public ::testing::TestWithParam<std::tuple<int, Shard>> {
 protected:
  int devices() const { return std::get<0>(GetParam()); }
  Shard shard() const { return std::get<1>(GetParam()); }

  SimulatedDevices simulated_{{.count = devices(), .max_delay_us = 10}};
  const Net net_ = [] {
    manual_seed(3);
    return Net();
  }();
};

TEST_P(Levels, TrainTheSameBitsWithEveryOptimizer) {
  for (const testing::OptimizerCase& which : testing::optimizer_cases()) {
    SCOPED_TRACE(which.name);
    DataParallel whole(copy(net_), options(Shard::none)), sharded(copy(net_), options(shard()));
    const auto a = which.make(whole.parameters()), b = which.make(sharded.parameters());
    train(whole, *a, 0, 5);
    train(sharded, *b, 0, 5);
    EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
    EXPECT_EQ(values(b->state_dict()), values(a->state_dict()));
    EXPECT_EQ(gradients(sharded.parameters()), gradients(whole.parameters()));
    expect_replicas_identical(sharded.parameters());
  }
}

TEST_P(Levels, TakeWhatIsChangedByHand) {
  DataParallel whole(copy(net_), options(Shard::none)), sharded(copy(net_), options(shard()));
  optim::AdamW a(whole.parameters(), {.lr = 0.01}), b(sharded.parameters(), {.lr = 0.01});
  const auto change = [](DataParallel<Net>& model, int step) {
    const NoGrad guard;
    Net& net = model.module();
    if (step == 2) net.first.weight.mul_(0.5);
    if (step == 3) net.last.bias->copy_(ones({1}));
    if (step == 5) net.first.weight.select(0, 3).fill_(0.25);
    if (step == 7)
      for (const Tensor& parameter : model.parameters()) Tensor(parameter).add_(0.01);
  };
  for (int step = 0; step < 9; ++step) {
    for (const bool before : {true, false}) {
      if (before == (step % 2 == 0)) change(whole, step), change(sharded, step);
      if (before) continue;
      train(whole, a, step, step + 1);
      train(sharded, b, step, step + 1);
    }
    EXPECT_EQ(values(sharded.parameters()), values(whole.parameters())) << step;
    expect_replicas_identical(sharded.parameters());
  }
}

TEST_P(Levels, LoadAndSaveWholeStateDicts) {
  DataParallel whole(copy(net_), options(Shard::none)), sharded(copy(net_), options(shard()));
  optim::AdamW a(whole.parameters(), {.lr = 0.01}), b(sharded.parameters(), {.lr = 0.01});
  train(whole, a, 0, 3);
  sharded.load_state_dict(copy_of(whole.state_dict()));
  b.load_state_dict(copy_of(a.state_dict()));
  train(whole, a, 3, 6);
  train(sharded, b, 3, 6);
  EXPECT_EQ(values(sharded.state_dict()), values(whole.state_dict()));
  EXPECT_EQ(values(copy(sharded.module()).parameters()), values(whole.parameters()));
}

TEST_P(Levels, ParametersOutliveTheirModel) {
  std::optional<DataParallel<Net>> model(std::in_place, copy(net_), options(shard()));
  optim::SGD optimizer(model->parameters(), {.lr = 0.01});
  train(*model, optimizer, 0, 2);
  const std::vector<Tensor> parameters = model->parameters();
  const auto before = values(parameters);
  model.reset();
  EXPECT_EQ(values(parameters), before);
  for (const Tensor& parameter : parameters) Tensor(parameter).set_grad(ones_like(parameter.detach()));
  optimizer.step();
  EXPECT_NE(values(parameters), before);
}

TEST_P(Levels, TakeParametersWithOtherMemory) {
  DataParallel whole(copy(net_), options(Shard::none)), sharded(copy(net_), options(shard()));
  optim::AdamW a(whole.parameters(), {.lr = 0.01}), b(sharded.parameters(), {.lr = 0.01});
  for (auto* const model : {&whole, &sharded}) {
    optim::AdamW& optimizer = model == &whole ? a : b;
    train(*model, optimizer, 0, 2);
    model->module().to(Device());
    model->module().to(model->device());
    train(*model, optimizer, 2, 4);
    model->module().first.weight.reset(ones({89, 5}, {.device = model->device()}) * 0.5);
    train(*model, optimizer, 4, 6);
  }
  EXPECT_EQ(values(sharded.parameters()), values(whole.parameters()));
  expect_replicas_identical(sharded.parameters());
}

TEST_P(Levels, LeaveNoMemoryInUse) {
  const std::vector<std::size_t> before = testing::memory_in_use(devices());
  {
    DataParallel model(copy(net_), options(shard()));
    optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
    train(model, optimizer, 0, 3);
  }
  EXPECT_EQ(testing::memory_in_use(devices()), before);
}

struct Layers : nn::Module<Layers> {
  std::vector<nn::Linear> layers;
  Layers() {
    for (int i = 0; i < 16; ++i) layers.emplace_back(512, 512);
  }
  auto members() { return nn::members("layers", layers); }
  Tensor forward(Tensor x) {
    for (nn::Linear& layer : layers) x = relu(layer(x));
    return x;
  }
};

// Each layer is a unit, and there are two buffers.
TEST(ShardedParameters, ChangeInPlaceThoughOtherUnitsAreUsed) {
  const SimulatedDevices simulated({.count = 2});
  manual_seed(2);
  const Layers layers;
  const std::size_t layer = (512 * 512 + 512) * sizeof(float);
  std::vector<std::vector<std::vector<double>>> found;
  for (const Shard shard : {Shard::none, Shard::parameters}) {
    DataParallel model(copy(layers), {.buckets = {.first_bytes = layer, .bytes = layer}, .shard = shard});
    std::vector<Tensor> some = model.parameters();
    some.resize(4);
    optim::SGD half(some, {.lr = 0.1});
    model(ones({2, 512}, {.device = "cuda:0"}));
    std::vector<nn::Linear>& all = model.module().layers;
    {
      const NoGrad guard;
      for (int round = 0; round < 3; ++round)
        for (std::size_t i = 0; i + 1 < all.size(); ++i) all[i].weight.mul_(0.5).add_(all[i + 1].weight, 0.5);
      const Tensor joined = all[3].weight + all[5].weight + all[7].weight;
      all[9].weight.copy_(joined);
    }
    sum(model(ones({2, 512}, {.device = "cuda:0"}))).backward();
    half.step();
    found.push_back(values(model.parameters()));
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST(ShardedParameters, ManyUnitsServeOneOperationAfterTheModel) {
  const SimulatedDevices simulated({.count = 2});
  std::optional<DataParallel<Layers>> model(std::in_place, Layers(),
                                            DataParallelOptions{.buckets = {.first_bytes = 1, .bytes = 1},  // 32 units
                                                                .shard = Shard::parameters});
  const std::vector<Tensor> parameters = model->parameters();
  optim::SGD optimizer(parameters, {.lr = 1});
  const auto before = values(parameters);
  model.reset();
  for (const Tensor& parameter : parameters) Tensor(parameter).set_grad(ones_like(parameter.detach()));
  optimizer.step();
  const auto after = values(parameters);
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i][0], double(float(before[i][0]) - 1)) << i;
}

// The parameters of a model with Shard::parameters lie in its units, also after the model.
TEST(ShardedParameters, TrainOnAtEveryLevel) {
  const SimulatedDevices simulated({.count = 3});
  manual_seed(3);
  const Net net;
  std::vector<std::vector<std::vector<double>>> found;
  for (const Shard first : {Shard::none, Shard::parameters})
    for (const Shard then : {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::parameters}) {
      DataParallel former(copy(net), options(first));
      optim::SGD optimizer(former.parameters(), {.lr = 0.01});
      train(former, optimizer, 0, 3);
      DataParallel model(std::move(former.module()), options(then));
      optim::SGD second(model.parameters(), {.lr = 0.01});
      train(model, second, 3, 6);
      found.push_back(values(model.parameters()));
      EXPECT_EQ(found.back(), found.front()) << first << " then " << then;
      expect_replicas_identical(model.parameters());
    }
}

// A stream that has failed skips the copies of units too.
TEST(ShardedParameters, AreBroughtAgainAfterAFailure) {
  int failures = 0;
  for (int nth = 1; nth <= 40; ++nth) {
    SimulatedDevices simulated({.count = 2});
    manual_seed(3);
    DataParallel model(Net(), options(Shard::parameters));
    optim::SGD optimizer(model.parameters(), {.lr = 0.01});
    train(model, optimizer, 0, 3);
    const auto before = values(model.parameters());
    const Tensor x = ones({4, 5}, {.device = "cuda:0"});
    const auto loss = [&] { return sum(square(model(x, true))); };
    const double expected = loss().item();
    for (const bool copies : {true, false}) {
      const Fault fault = {.device = nth % 2, .nth = std::uint64_t(nth + 1) / 2};
      copies ? simulated.fault().fail_copy(fault) : simulated.fault().fail_launch(fault);
      try {
        loss().backward();
        for (int d = 0; d < 2; ++d) synchronize(Device::cuda(d));
      } catch (const Error&) {
        ++failures;
      }
      simulated.fault().clear();
      for (int d = 0; d < 2; ++d) try {
          synchronize(Device::cuda(d));
        } catch (const Error&) {
        }
      optimizer.zero_grad();
      EXPECT_EQ(loss().item(), expected) << nth << ' ' << copies;
      EXPECT_EQ(values(model.parameters()), before) << nth << ' ' << copies;
    }
  }
  EXPECT_GT(failures, 40);  // of 80 faults; the others came after the pass
}

TEST(ShardedParameters, AreRefusedWhereTheyMeanNothing) {
  const SimulatedDevices simulated({.count = 2});
  nn::Linear net(4, 2);
  const Tensor x = ones({4, 4}, {.device = "cuda:0"});
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] {
              data_parallel(nn::Linear(4, 2), x, {.shard = Shard::parameters});
            }).rfind("[data_parallel] expected Shard::none, got Shard::parameters", 0),
            0u);
  EXPECT_THROW(DataParallel(nn::Linear(4, 2), {.device_ids = {0}, .buckets = {.whole_buckets = 0}}), InvalidArgument);
}

TEST(ShardedParameters, RefuseChangesInForward) {
  struct Shrinking : nn::Module<Shrinking> {
    nn::Linear linear{4, 4};
    auto members() { return nn::members("linear", linear); }
    Tensor forward(const Tensor& x) {
      const NoGrad guard;
      linear.weight.mul_(0.9);
      return linear(x);
    }
  };
  const SimulatedDevices simulated({.count = 2});
  for (const bool frozen : {false, true}) {
    DataParallel model(Shrinking(), {.shard = Shard::parameters});
    if (frozen) model.module().linear.weight.requires_grad_(false);
    const std::string message = testing::thrown<InvalidArgument>([&] { model(ones({4, 4}, {.device = "cuda:0"})); });
    EXPECT_NE(message.find("sharded parameter \"linear.weight\""), std::string::npos) << message;
  }
}

// The activations of one row are less than 1 %.
TEST(MemoryPlan, IsThePeak) {
  const std::size_t layer = (512 * 512 + 512) * sizeof(float);
  for (const int devices : {2, 4, 8})
    for (const Shard shard : {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::parameters}) {
      SCOPED_TRACE(text(devices, " devices, ", shard));
      const SimulatedDevices simulated({.count = devices});
      const BucketOptions buckets = {.first_bytes = layer, .bytes = layer};
      const MemoryPlan plan = memory_plan(Layers(), {.devices = devices, .buckets = buckets});
      DataParallel model(Layers(), {.buckets = buckets, .shard = shard});
      optim::AdamW optimizer(model.parameters());
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        sum(model(ones({devices, 512}, {.device = "cuda:0"}))).backward();
        optimizer.step();
        for (int d = 0; d < devices && step == 1; ++d) reset_peak_memory(Device::cuda(d));
      }
      for (int d = 0; d < devices; ++d)
        EXPECT_NEAR(double(memory_stats(Device::cuda(d)).peak_in_use) / double(plan[shard].total()), 1, 0.05);
    }
}

// The bytes that a device sends in a step, if collectives run as rings.
double sent_by(const Device& device, const std::vector<TraceEvent>& events) {
  double sent = 0;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceKind::copy_between && event.device == device) sent += double(event.bytes);  // it fetches
    if (!event.collective || event.device != device) continue;
    const TraceCollective& of = *event.collective;
    const double others = of.ranks - 1, whole = double(std::max(of.elements_in, of.elements_out) * size_of(of.dtype));
    if (event.name == "all_reduce") sent += 2 * whole * others / of.ranks;
    if (event.name == "reduce_scatter" || event.name == "all_gather") sent += whole * others / of.ranks;
    if (event.name == "send_receive") sent += double(of.elements_in * size_of(of.dtype));
  }
  return sent;
}

// docs/sharding.md, "Levels": as many bytes as without sharding, or 1.5 times as many. The last units of forward are
// the first of backward, and are still there.
TEST(ShardedParameters, AreSentAsOftenAsDocumented) {
  const std::size_t layer = (512 * 512 + 512) * sizeof(float);
  for (const int devices : {2, 4}) {
    double without = 0;
    for (const Shard shard : {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::parameters}) {
      SCOPED_TRACE(text(devices, " devices, ", shard));
      const SimulatedDevices simulated({.count = devices});
      DataParallel model(Layers(), {.buckets = {.first_bytes = layer, .bytes = layer}, .shard = shard});
      optim::SGD optimizer(model.parameters(), {.lr = 0.1});
      const Tensor x = ones({devices, 512}, {.device = "cuda:0"});
      std::optional<Trace> trace;
      for (int step = 0; step < 4; ++step) {
        if (step == 3) trace.emplace();
        optimizer.zero_grad();
        sum(model(x)).backward();
        optimizer.step();
        for (int d = 0; d < devices; ++d) synchronize(Device::cuda(d));
      }
      const double sent = sent_by(Device::cuda(devices - 1), trace->events());
      if (shard == Shard::none) without = sent;
      EXPECT_NEAR(without, 2 * 16 * double(layer) * (devices - 1) / devices, 0.01 * without);
      if (shard == Shard::parameters) {
        EXPECT_GT(sent, 1.4 * without);
        EXPECT_LE(sent, 1.51 * without);
      } else {
        EXPECT_NEAR(sent, without, 0.01 * without);
      }
    }
  }
}

// docs/sharding.md, "How a parameter comes and goes": units in 16 bits. Gradients are as large as without autocast.
TEST(ShardedParameters, AreSentInHalfTheBytesUnderAutocast) {
  const std::size_t layer = (512 * 512 + 512) * sizeof(float);
  for (const int devices : {2, 4}) {
    const SimulatedDevices simulated({.count = devices});
    DataParallel model(Layers(), {.buckets = {.first_bytes = layer, .bytes = layer}, .shard = Shard::parameters});
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    const Tensor x = ones({devices, 512}, {.device = "cuda:0"});
    std::vector<double> brought;
    for (const bool autocast : {false, true}) {
      std::optional<Trace> trace;
      for (int step = 0; step < 4; ++step) {
        if (step == 3) trace.emplace();
        optimizer.zero_grad();
        std::optional<Autocast> region;
        if (autocast) region.emplace(kBFloat16);
        const Tensor loss = sum(model(x));
        region.reset();
        loss.backward();
        optimizer.step();
        for (int d = 0; d < devices; ++d) synchronize(Device::cuda(d));
      }
      double bytes = 0;
      for (const TraceEvent& event : trace->events())
        if (event.kind == TraceKind::copy_between && event.device == Device::cuda(devices - 1))
          bytes += double(event.bytes);
      brought.push_back(bytes);
    }
    EXPECT_NEAR(brought[1] / brought[0], 0.5, 0.005);
  }
}

// docs/sharding.md, "Levels": all parameters 2 MiB, in two buckets.
TEST(MemoryPlan, IsThatOfTheDocumentation) {
  struct Two : nn::Module<Two> {
    nn::Linear a{512, 512, {.bias = false}}, b{512, 512, {.bias = false}};
    auto members() { return nn::members("a", a, "b", b); }
    Tensor forward(const Tensor& x) { return b(a(x)); }
  };
  const double P = 2 << 20, B = 1 << 20, S = 2 * P, D = 4, N = 8, W = 2;
  const MemoryPlan plan = memory_plan(Two(), {.devices = 4, .processes = 2, .buckets = {.bytes = 1 << 20}});
  EXPECT_EQ(double(plan[Shard::none].total()), 2 * P + S);
  EXPECT_EQ(double(plan[Shard::optimizer_state].total()), 2 * P + S / N);
  EXPECT_EQ(double(plan[Shard::gradients].total()), P + P / N + S / N + W * B);
  EXPECT_EQ(double(plan[Shard::hybrid].total()), P / D + P / N + S / N + 2 * W * B);
  EXPECT_EQ(double(plan[Shard::parameters].total()), 2 * P / N + S / N + 2 * W * B + (W + 1) * B / D);
  EXPECT_NE(text(plan).find("optimizer_state"), std::string::npos);
  const MemoryPlan in_16_bits =
      memory_plan(Two(), {.devices = 4, .processes = 2, .buckets = {.bytes = 1 << 20}, .autocast = true});
  const double G = P / 2;  // the largest parameter
  EXPECT_EQ(double(in_16_bits[Shard::none].total()), 2 * P + S + P / 2 + G / 2);
  EXPECT_EQ(double(in_16_bits[Shard::gradients].total()), P + P / N + S / N + W * B + P / 2 + G / 2);
  EXPECT_EQ(double(in_16_bits[Shard::hybrid].total()), P / D + P / N + S / N + 1.5 * W * B + P / (2 * D) + G / 2);
  EXPECT_EQ(double(in_16_bits[Shard::parameters].total()), 2 * P / N + S / N + 1.5 * W * B + (W + 1) * B / D + G / 2);
  // A model of two buckets never needs a third buffer.
  const MemoryPlan more =
      memory_plan(Two(), {.devices = 4, .processes = 2, .buckets = {.bytes = 1 << 20, .whole_buckets = 3}});
  EXPECT_EQ(more[Shard::gradients].total(), plan[Shard::gradients].total());
}

INSTANTIATE_TEST_SUITE_P(
    Shard, Levels,
    ::testing::Combine(::testing::Values(2, 3, 5),
                       ::testing::Values(Shard::optimizer_state, Shard::gradients, Shard::parameters)),
    [](const auto& way) { return text(std::get<0>(way.param), "Devices_", std::get<1>(way.param)); });

// A frozen parameter of a model that was sharded, in a model of any level: it lies whole on all devices, and changes of
// it reach all.
struct TwoLayers : nn::Module<TwoLayers> {
  nn::Linear body{8, 16}, head{16, 4};
  auto members() { return nn::members("body", body, "head", head); }
  Tensor forward(const Tensor& x) { return head(relu(body(x))); }
};

void expect_equal_rows(DataParallel<TwoLayers>& model) {
  const NoGrad guard;
  const Tensor one = randn({1, 8});
  const std::vector<float> y = model(cat({one, one})).to(Device()).to_vector<float>();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(y[i], y[4 + i]);
}

TEST(ShardedParameters, ThatWereFrozenReachTheDevicesOfTheNextModel) {
  const SimulatedDevices devices({.count = 2});
  for (const Shard first : {Shard::none, Shard::gradients, Shard::parameters})
    for (const Shard second : {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::parameters}) {
      DataParallel<TwoLayers> former(TwoLayers(), {.shard = first});
      former.module().body.requires_grad_(false);
      DataParallel<TwoLayers> model(std::move(former.module()), {.shard = second});
      expect_equal_rows(model);
      {
        const NoGrad guard;
        model.module().body.weight.mul_(2);
      }
      expect_equal_rows(model);
      if (second == Shard::none) {
        EXPECT_NO_THROW(model.module().body.weight.data<float>());
      }
    }
}

TEST(ShardedParameters, ThatWereFrozenReachReplicasThatAreMadeAnew) {
  const SimulatedDevices devices({.count = 2});
  DataParallel<TwoLayers> model(TwoLayers(), {.shard = Shard::parameters});
  expect_equal_rows(model);
  model.module().body.requires_grad_(false);
  model.module().head.weight.reset(randn({4, 16}, {.device = model.device()}));
  expect_equal_rows(model);
  {
    const NoGrad guard;
    model.module().body.weight.mul_(2);
  }
  expect_equal_rows(model);
}

TEST(ShardedParameters, GoToALowerLevelWithinOneAutocastRegion) {
  const SimulatedDevices devices({.count = 2});
  const Autocast region(kBFloat16);
  for (const Shard second : {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::parameters}) {
    DataParallel<TwoLayers> former(TwoLayers(), {.shard = Shard::parameters});
    sum(former(ones({6, 8}))).backward();
    DataParallel<TwoLayers> model(std::move(former.module()), {.shard = second});
    EXPECT_NO_THROW(sum(model(ones({6, 8}))).backward());
  }
}

TEST(DataParallelMembers, MayNotBeOneTensor) {
  struct Tied : nn::Module<Tied> {
    nn::Linear a{4, 4}, b{4, 4};
    Tied() { static_cast<Tensor&>(b.weight) = a.weight; }
    auto members() { return nn::members("a", a, "b", b); }
    Tensor forward(const Tensor& x) { return b(a(x)); }
  };
  const SimulatedDevices devices({.count = 2});
  EXPECT_THROW(DataParallel<Tied>{Tied()}, InvalidArgument);
}

}  // namespace
}  // namespace lockstep::sharded
