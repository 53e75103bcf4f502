// Gradients are summed over the replicas whatever happened to the module, its graph or its streams before.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/values.h"

namespace lockstep {
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

// Its values are those of b(x) alone, so a gets no gradient.
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
  }
}

TEST(GradientSums, AfterReplicasCouldNotBeMade) {
  for (int device = 0; device < 3; ++device)
    for (std::uint64_t nth = 1;; ++nth) {
      SimulatedDevices devices({.count = 3});
      DataParallel model{Pair()};
      model(rows(6));
      model.module().a.weight.requires_grad_(false);  // the next forward makes new replicas
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
      one = a(x);  // the later operation: its gradients come first
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

}  // namespace
}  // namespace lockstep
