// Gradients are summed over the replicas, whatever was done to the module, its graph or its streams before.
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/replicas.h"
#include "support/values.h"

namespace lockstep::gradient_sums {
namespace {

using testing::values;
using Doubles = std::vector<double>;

struct Pair : nn::Module<Pair> {
  nn::Linear a{2, 2}, b{2, 1};
  auto members() { return nn::members("a", a, "b", b); }
  Tensor forward(const Tensor& x) { return b(a(x)); }
};

Tensor rows(std::int64_t count) { return ones({count, 2}, {.device = "cuda:0"}); }

void finish() {
  for (const Device& device : try_all_gpus()) synchronize(device);
}

TEST(GradientSums, OfAParameterThatTookAnothersPlace) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model{Pair()};
  sum(model(rows(4))).backward();
  nn::Linear fresh(2, 1);
  fresh.to("cuda:0");
  model.module().b = std::move(fresh);
  sum(model(rows(4))).backward();
  EXPECT_EQ(values(model.module().b.bias->grad()), Doubles{4});
}

// Its values are those of b(x) alone, so `a` gets no gradient.
struct Overwritten : nn::Module<Overwritten> {
  nn::Linear a{2, 2}, b{2, 2};
  auto members() { return nn::members("a", a, "b", b); }
  Tensor forward(const Tensor& x) {
    Tensor h = a(x);
    return h.copy_(b(x));
  }
};

TEST(GradientSums, OfABucketInWhichOneGetsNone) {
  const SimulatedDevices devices({.count = 3});
  DataParallel model{Overwritten()};
  for (int step = 0; step < 2; ++step) {
    model.zero_grad();
    sum(model(rows(6))).backward();
    EXPECT_EQ(values(model.module().b.bias->grad()), (Doubles{6, 6})) << "step " << step;
    EXPECT_FALSE(model.module().a.bias->grad().defined()) << "step " << step;
  }
}

// Only the first replica has a gradient of `a`; the other's bucket still holds the previous step's.
struct OverwrittenOnOne : nn::Module<OverwrittenOnOne> {
  nn::Linear a{2, 2}, b{2, 2};
  bool on_one = false;
  auto members() { return nn::members("a", a, "b", b, "on_one", on_one); }
  Tensor forward(const Tensor& x) {
    Tensor h = a(x);
    return on_one && x.device() == Device("cuda:1") ? h.copy_(b(x)) : h + b(x);
  }
};

TEST(GradientSums, OfABucketInWhichOneDeviceGetsNone) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model{OverwrittenOnOne()};
  for (int step = 0; step < 3; ++step) {
    model.module().on_one = step == 2;
    model.zero_grad();
    sum(model(rows(6))).backward();
    EXPECT_EQ(values(model.module().a.bias->grad()), (step == 2 ? Doubles{3, 3} : Doubles{6, 6})) << "step " << step;
  }
}

struct NamedTwice : nn::Module<NamedTwice> {
  nn::Linear a{2, 1};
  auto members() { return nn::members("a", a, "again", a); }
  Tensor forward(const Tensor& x) { return a(x); }
};

TEST(GradientSums, OfAParameterThatTheModuleNamesTwice) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model{NamedTwice()};
  optim::SGD optimizer({model.module().a.weight}, {.lr = 1});
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    sum(model(rows(4))).backward();
    EXPECT_EQ(values(model.module().a.weight.grad()), (Doubles{4, 4}));
    optimizer.step();
    const auto replicas = testing::other_replicas(model.module().a.weight);
    ASSERT_EQ(replicas.size(), 1u);
    EXPECT_EQ(values(replicas[0]), values(model.module().a.weight));
  }
}

TEST(GradientSums, AreOfOneBackwardAtATime) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model{Pair()};
  const Tensor other = sum(model(rows(4))), output = model(rows(4));
  bool refused = false;
  register_hook(output, [&](const Tensor&) {
    try {
      other.backward();
    } catch (const AutogradError&) {
      refused = true;
    }
    return Tensor();
  });
  sum(output).backward();
  EXPECT_TRUE(refused);
  EXPECT_EQ(values(model.module().b.bias->grad()), Doubles{4});
}

TEST(GradientSums, AfterReplicasCouldNotBeMade) {
  for (int device = 0; device < 3; ++device)
    for (std::uint64_t nth = 1;; ++nth) {
      SimulatedDevices devices({.count = 3});
      DataParallel model{Pair()};
      model(rows(6));
      // Replaces a parameter, so that the next forward makes new replicas.
      model.module().a.weight = nn::Parameter(model.module().a.weight.detach().clone());
      devices.fault().fail_allocation({.device = device, .nth = nth});
      bool failed = false;
      try {
        model(rows(6));
      } catch (const Error&) {
        failed = true;
      }
      devices.fault().clear();
      if (!failed) {
        EXPECT_GT(nth, 3u);
        break;
      }
      model.zero_grad();
      sum(model(rows(6))).backward();
      ASSERT_EQ(values(model.module().b.bias->grad()), Doubles{6}) << "device " << device << ", allocation " << nth;
    }
}

TEST(GradientSums, OfTwoModelsAfterTheirBackwardCouldNotBegin) {
  bool failed = true;
  for (std::uint64_t nth = 1; failed; ++nth) {
    SimulatedDevices devices({.count = 2});
    DataParallel first{Pair()}, second{Pair()};
    (sum(first(rows(4))) + sum(second(rows(4)))).backward();
    const Tensor loss = sum(first(rows(4))) + sum(second(rows(4)));
    devices.fault().fail_allocation({.device = 1, .nth = nth});
    failed = false;
    try {
      loss.backward();
    } catch (const Error&) {
      failed = true;
    }
    devices.fault().clear();
    for (auto* model : {&first, &second}) {
      model->zero_grad();
      sum((*model)(rows(4))).backward();
      ASSERT_EQ(values(model->module().b.bias->grad()), Doubles{4}) << "allocation " << nth;
    }
  }
}

// Computes its two halves on two streams.
struct Branches : nn::Module<Branches> {
  nn::Linear a{2, 2}, b{2, 2};
  auto members() { return nn::members("a", a, "b", b); }
  Tensor forward(const Tensor& x) {
    const Stream here = current_stream(x.device()), other = Stream::from_pool(x.device());
    other.wait(here.record());
    const Tensor two = b(x);
    Tensor one;
    {
      const StreamGuard guard(other);
      one = a(x);  // the later operation, whose gradients arrive first
    }
    here.wait(other.record());
    return one + two;
  }
};

TEST(GradientSums, WaitForAllStreamsOnWhichGradientsCame) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model{Branches()};
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    sum(model(rows(4))).backward();
    EXPECT_NO_THROW(finish()) << "step " << step;
    EXPECT_EQ(values(model.module().a.bias->grad()), (Doubles{4, 4}));
  }
}

TEST(GradientSums, OfAForwardOnOtherStreams) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model{Pair()};
  const std::vector<Stream> others = {Stream::from_pool("cuda:0"), Stream::from_pool("cuda:1")};
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    const Tensor x = rows(4);
    for (const Stream& other : others) other.wait(current_stream(other.device()).record());
    Tensor loss;
    {
      const StreamGuard first(others[0]), second(others[1]);
      loss = sum(model(x));
    }
    for (const Stream& other : others) current_stream(other.device()).wait(other.record());
    EXPECT_NO_THROW({
      loss.backward();
      finish();
    }) << "step "
       << step;
    EXPECT_EQ(values(model.module().b.bias->grad()), Doubles{4});
  }
}

TEST(GradientSums, LeaveAloneWhatAHookKeeps) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model{Pair()};
  Tensor kept;
  register_hook(*model.module().b.bias, [&](const Tensor& g) {
    kept = g;
    return g * 10.0;
  });
  for (int step = 0; step < 2; ++step) {
    model.zero_grad();
    sum(model(rows(4))).backward();
    EXPECT_EQ(values(kept), Doubles{4});
    EXPECT_EQ(values(model.module().b.bias->grad()), Doubles{40});
  }
}

// Backward can write a weight's gradient directly into the bucket; with a hook that keeps it, it must not.
TEST(GradientSums, LeaveAloneTheProductThatAHookKeeps) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model(nn::Linear(2, 1));
  Tensor kept;
  register_hook(model.module().weight, [&](const Tensor& g) {
    kept = g;
    return g;
  });
  for (int step = 0; step < 2; ++step) {
    model.zero_grad();
    sum(model(rows(4))).backward();
    EXPECT_EQ(values(kept), (Doubles{4, 4}));
    EXPECT_EQ(values(model.module().weight.grad()), (Doubles{4, 4}));
  }
}

TEST(GradientSums, MayBeSetToAViewOfThemselves) {
  const SimulatedDevices devices({.count = 2});
  DataParallel model{Pair()};
  sum(model(rows(4))).backward();
  Tensor weight = model.module().a.weight;
  const Doubles before = values(weight.grad());
  weight.set_grad(weight.grad().t());
  EXPECT_EQ(values(weight.grad()), (Doubles{before[0], before[2], before[1], before[3]}));
  EXPECT_NE(before[1], before[2]);
}

// The next gradients overwrite the memory of these, so the backward of a graph that saved them must throw.
TEST(GradientSums, ThatAGraphNeedsAreMissedByItsBackward) {
  const SimulatedDevices devices({.count = 2});
  for (const bool sums : {true, false}) {
    DataParallel model{Pair()};
    sum(model(rows(4))).backward();
    const Tensor factor = ones({1}, {.device = "cuda:0", .requires_grad = true});
    const Tensor loss = sum(model.module().b.bias->grad() * factor);
    model.zero_grad();
    {
      std::optional<DataParallel<Pair>::NoSync> guard;
      if (!sums) guard.emplace(model);
      sum(model(rows(2))).backward();
    }
    EXPECT_THROW(loss.backward(), AutogradError) << sums;
  }
}

TEST(GradientSums, AreNotMadeOfWhatWasCleared) {
  SimulatedDevices devices({.count = 2});
  DataParallel model{Pair()};
  {
    const DataParallel<Pair>::NoSync guard(model);
    sum(model(rows(4))).backward();
  }
  model.zero_grad();
  const std::uint64_t before = devices.counts(0).collectives;
  EXPECT_FALSE(model.module().a.weight.grad().defined());
  EXPECT_EQ(devices.counts(0).collectives, before);
}

// The caller's streams wait for the sums. The streams on which the buckets were allocated, which get the memory back,
// do not.
TEST(GradientSums, KeepTheirMemoryUntilTheyHaveEnded) {
  const SimulatedDevices devices({.count = 2});
  const std::vector<Stream> others = {Stream::from_pool("cuda:0"), Stream::from_pool("cuda:1")};
  const Tensor x = rows(4);
  for (const Stream& other : others) other.wait(current_stream(other.device()).record());
  {
    std::optional<DataParallel<Pair>> model;
    Tensor loss;
    {
      const StreamGuard first(others[0]), second(others[1]);
      model.emplace(Pair());
      loss = sum((*model)(x));
    }
    for (const Stream& other : others) current_stream(other.device()).wait(other.record());
    loss.backward();
  }
  const StreamGuard first(others[0]), second(others[1]);
  EXPECT_NO_THROW({
    for (const Stream& other : others)
      for (const std::int64_t elements : {64, 128, 256, 512}) zeros({elements}, {.device = other.device()});
    finish();
  });
}

// Backward produces its gradients in an order other than the reverse of members().
struct Crossed : nn::Module<Crossed> {
  nn::Linear a{200, 300, {.bias = false}}, b{300, 200, {.bias = false}}, sometimes{200, 200, {.bias = false}};
  bool branch = true;
  auto members() { return nn::members("b", b, "sometimes", sometimes, "a", a, "branch", branch); }
  Tensor forward(const Tensor& x) {
    const Tensor h = b(a(x));
    return branch ? h + sometimes(x) : h;
  }
};

std::vector<Doubles> all_gradients(DataParallel<Crossed>& model) {
  std::vector<Doubles> all;
  for (const Tensor& parameter : model.parameters()) all.push_back(values(parameter.grad()));
  return all;
}

// Runs two backwards. The second one gets the fault while it rebuilds the buckets, and does not reach `sometimes`,
// whose gradient was gathered or not.
std::vector<Doubles> sums_of_two(bool shard, bool gathered, SimulatedDevices& devices, std::optional<Fault> fault) {
  manual_seed(5);
  DataParallel model(
      Crossed(), {.buckets = {.first_bytes = 1, .bytes = 1}, .shard = shard ? Shard::optimizer_state : Shard::none});
  const Tensor x = ones({4, 200}, {.device = "cuda:0"});
  sum(model(x)).backward();
  if (gathered) all_gradients(model);
  model.module().branch = false;
  const Tensor loss = sum(model(x)), one = ones({}, {.device = "cuda:0"});
  finish();
  for (const Device& device : model.devices()) empty_cache(device);
  if (fault) devices.fault().fail_allocation(*fault);
  loss.backward(one);
  devices.fault().clear();
  return all_gradients(model);
}

TEST(GradientSums, AreCompleteWhereThereIsNoRoomForOtherBuckets) {
  for (const bool shard : {false, true})
    for (const bool gathered : {false, true}) {
      SimulatedDevices devices({.count = 2});
      const std::vector<Doubles> right = sums_of_two(shard, gathered, devices, {});
      for (int d = 0; d < 2; ++d)
        for (std::uint64_t nth = 1; nth <= 3; ++nth)  // one allocation per parameter
          EXPECT_EQ(sums_of_two(shard, gathered, devices, Fault{.device = d, .nth = nth}), right)
              << shard << gathered << ", allocation " << nth << " on cuda:" << d;
    }
}

TEST(GradientSums, NeedTheirMemoryOnce) {
  for (const bool shard : {false, true}) {
    const std::size_t bytes = (200 * 300 * 2 + 200 * 200) * sizeof(float);
    SimulatedDevices devices({.count = 2, .memory_bytes = 2 * bytes + bytes / 2});
    DataParallel model(
        Crossed(), {.buckets = {.first_bytes = 1, .bytes = 1}, .shard = shard ? Shard::optimizer_state : Shard::none});
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      EXPECT_NO_THROW(sum(model(ones({4, 200}, {.device = "cuda:0"}))).backward()) << "step " << step;
    }
    finish();
  }
}

TEST(GradientSums, OfATableAreAddedUpInTheirBucket) {
  SimulatedDevices devices({.count = 2});
  DataParallel model(nn::Embedding(4096, 64));
  const Tensor rows = zeros({6}, {.dtype = kInt64, .device = "cuda:0"});
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    const Tensor all = sum(model(rows));
    finish();
    const Device device = Device::cuda(0);
    reset_peak_memory(device);
    const std::size_t before = memory_stats(device).in_use;
    all.backward();
    finish();
    if (step > 0) {  // the first backward makes the buckets
      EXPECT_LT(memory_stats(device).peak_in_use - before, 4096 * 64 * sizeof(float) / 2) << step;
    }
  }
}

TEST(GradientSums, StayInBucketsThatFitTheirOrder) {
  SimulatedDevices devices({.count = 2});
  DataParallel model{Crossed()};  // all in one bucket
  std::vector<std::size_t> peaks;
  for (int step = 0; step < 2; ++step) {
    model.zero_grad();
    const Tensor loss = sum(model(ones({4, 200}, {.device = "cuda:0"})));
    reset_peak_memory("cuda:0");
    loss.backward();
    finish();
    peaks.push_back(memory_stats("cuda:0").peak_in_use);
  }
  EXPECT_EQ(peaks[1], peaks[0]);
}

}  // namespace
}  // namespace lockstep::gradient_sums
