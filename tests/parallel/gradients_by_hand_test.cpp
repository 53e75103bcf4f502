// A parameter has one gradient, however its user changes it between backward and step: the same on any number of
// devices as on one.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/replicas.h"
#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep::gradients_by_hand {
namespace {

using testing::values;
using Doubles = std::vector<double>;

struct Pair : nn::Module<Pair> {
  nn::Linear a{3, 4, {.tensor = {.dtype = kFloat64}}}, b{4, 1, {.tensor = {.dtype = kFloat64}}};
  nn::Buffer other{zeros({1})};
  auto members() { return nn::members("a", a, "b", b, "other", other); }
  Tensor forward(const Tensor& x) { return b(a(x)); }
  /// Makes the next forward of a DataParallel replace its replicas, whose buffer has another shape.
  void invalidate_replicas() { other = nn::Buffer(zeros({other.numel() + 1}, {.device = other.device()})); }
};

struct Case {
  int devices;
  bool shard;
  std::size_t bucket_bytes;
};

class GradientsByHand : public ::testing::TestWithParam<Case> {
 protected:
  const TestDevices devices{GetParam().devices};
  const Tensor x = randn({7, 3}, {.dtype = kFloat64, .device = "cuda:0"});

  DataParallel<Pair> parallel(const Pair& net) const {
    const BucketOptions buckets = {.first_bytes = GetParam().bucket_bytes, .bytes = GetParam().bucket_bytes};
    return DataParallel<Pair>(copy(net),
                              {.buckets = buckets, .shard = GetParam().shard ? Shard::optimizer_state : Shard::none});
  }

  // `job` computes the gradients of a step, for a module alone and for one on several devices.
  template <class Job>
  void expect_same_steps(const Job& job) {
    Pair alone;
    DataParallel<Pair> several = parallel(alone);
    alone.to("cuda:0");
    optim::SGD one(alone.parameters(), {.lr = 0.1, .momentum = 0.5});
    optim::SGD many(several.parameters(), {.lr = 0.1, .momentum = 0.5});
    for (int step = 0; step < 4; ++step) {
      one.zero_grad();
      many.zero_grad();
      job(alone, alone);
      job(several, several.module());
      one.step();
      many.step();
      expect_same(alone, several, step);
    }
    one.zero_grad();  // a gradient with a graph owns its own parameter
  }

  static void expect_same(Pair& alone, DataParallel<Pair>& several, int step) {
    const auto expected = alone.named_parameters(), got = several.named_parameters();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Doubles a = values(expected[i].second), b = values(got[i].second);
      for (std::size_t k = 0; k < a.size(); ++k)
        ASSERT_NEAR(b[k], a[k], 1e-11) << expected[i].first << " after step " << step;
      for (const Tensor& replica : testing::other_replicas(got[i].second))
        ASSERT_EQ(values(replica), b) << expected[i].first << " on " << replica.device() << " after step " << step;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(, GradientsByHand,
                         ::testing::Values(Case{2, false, 8}, Case{3, false, 1 << 20}, Case{2, true, 1 << 20},
                                           Case{3, true, 100}),
                         [](const auto& c) {
                           return std::to_string(c.param.devices) + (c.param.shard ? "Sharded" : "Whole") +
                                  std::to_string(c.param.bucket_bytes);
                         });

template <class Model>
auto unsummed(Model& model) {
  if constexpr (requires { model.no_sync(); })
    return model.no_sync();
  else
    return 0;
}

TEST_P(GradientsByHand, AreChangedInPlace) {
  expect_same_steps([&](auto& model, Pair& net) {
    sum(model(x)).backward();
    net.a.weight.grad().mul_(0.5);
    net.b.bias->grad().fill_(3);
    net.b.weight.grad().copy_(ones({1, 4}));
  });
}

TEST_P(GradientsByHand, AreZeroedOneByOne) {
  expect_same_steps([&](auto& model, Pair& net) {
    sum(model(x)).backward();
    net.a.weight.grad().zero_();
    sum(model(x)).backward();
    net.a.bias->grad().zero_();
  });
}

TEST_P(GradientsByHand, AreSet) {
  expect_same_steps([&](auto& model, Pair& net) {
    sum(model(x)).backward();
    net.a.weight.set_grad(full({4, 3}, 2, {.dtype = kFloat64, .device = "cuda:0"}));
    net.a.bias->set_grad(net.a.bias->grad() * 3);
    net.b.weight.set_grad({});
  });
}

TEST_P(GradientsByHand, AreSetWithoutABackward) {
  expect_same_steps([&](auto&, Pair& net) {
    net.a.weight.set_grad(full({4, 3}, 2, {.dtype = kFloat64, .device = "cuda:0"}));
  });
}

TEST_P(GradientsByHand, AreSetBeforeABackwardAddsToThem) {
  expect_same_steps([&](auto& model, Pair& net) {
    net.a.weight.set_grad(full({4, 3}, 2, {.dtype = kFloat64, .device = "cuda:0"}));
    sum(model(x)).backward();
    net.a.bias->set_grad(ones({4}, {.dtype = kFloat64, .device = "cuda:0"}));
    sum(model(x)).backward();
  });
}

TEST_P(GradientsByHand, AreChangedBetweenBackwards) {
  expect_same_steps([&](auto& model, Pair& net) {
    sum(model(x)).backward();
    net.a.weight.grad().mul_(2);
    sum(model(x) * 3).backward();
    net.b.weight.grad().mul_(0.25);
  });
}

TEST_P(GradientsByHand, AreChangedAroundClipping) {
  expect_same_steps([&](auto& model, Pair& net) {
    sum(model(x)).backward();
    net.a.weight.grad().mul_(2);
    optim::clip_grad_norm_(net.parameters(), 1.5);
    net.b.weight.grad().mul_(5);
    optim::clip_grad_value_(net.parameters(), 0.4);
    net.a.bias->set_grad(ones({4}, {.dtype = kFloat64, .device = "cuda:0"}));
  });
}

TEST_P(GradientsByHand, AreSummedByTheStepIfNoBackwardDid) {
  expect_same_steps([&](auto& model, Pair&) {
    [[maybe_unused]] const auto guard = unsummed(model);
    sum(model(x)).backward();
    sum(model(x.narrow(0, 0, 1))).backward();
  });
}

TEST_P(GradientsByHand, AreSummedForWhoAsks) {
  expect_same_steps([&](auto& model, Pair& net) {
    [[maybe_unused]] const auto guard = unsummed(model);
    sum(model(x)).backward();
    net.a.weight.grad().mul_(0.5);
    sum(model(x)).backward();
    optim::clip_grad_norm_(net.parameters(), 1.5);
    net.a.bias->grad().mul_(2);
    sum(model(x.narrow(0, 0, 1))).backward();
  });
}

TEST_P(GradientsByHand, AreSummedBeforeReplicasAreMadeAgain) {
  expect_same_steps([&](auto& model, Pair& net) {
    {
      [[maybe_unused]] const auto guard = unsummed(model);
      sum(model(x)).backward();
    }
    net.invalidate_replicas();
    sum(model(x)).backward();
  });
}

TEST_P(GradientsByHand, AreThereOnReplicasMadeSince) {
  expect_same_steps([&](auto& model, Pair& net) {
    sum(model(x)).backward();
    net.invalidate_replicas();
    const NoGrad guard;
    model(x);
  });
}

TEST_P(GradientsByHand, AreZeroedInPlaceWhileUnsummed) {
  expect_same_steps([&](auto& model, Pair& net) {
    {
      [[maybe_unused]] const auto guard = unsummed(model);
      sum(model(x)).backward();
    }
    net.zero_grad();
    sum(model(x)).backward();
    for (Tensor& parameter : net.parameters()) parameter.grad().zero_();
    sum(model(x * 2)).backward();
  });
}

TEST_P(GradientsByHand, StayWithParametersThatAreChangedBeforeTheStep) {
  expect_same_steps([&](auto& model, Pair& net) {
    sum(model(x)).backward();
    const NoGrad guard;
    net.a.weight *= 3;
    net.b.bias->fill_(2);
    net.b.bias->mul_(0.5);
  });
}

TEST_P(GradientsByHand, AccumulateWithAGraphToo) {
  expect_same_steps([&](auto& model, Pair& net) {
    for (int i = 0; i < 3; ++i) sum(model(x)).backward({}, false, true);
    for (Tensor& parameter : net.parameters()) parameter.grad().detach().zero_();
    sum(model(x)).backward({}, false, true);
  });
}

TEST_P(GradientsByHand, AreThoseOfAllReplicasWhereNoneAccumulates) {
  Pair alone;
  DataParallel<Pair> several = parallel(alone);
  alone.to("cuda:0");
  const auto of = [&](auto& model, Pair& net) {
    const Tensor y = model(x);
    const std::vector<Tensor> roots = {sum(y * y)}, inputs = net.parameters();
    return gradients(roots, inputs, {}, {.create_graph = true});
  };
  const std::vector<Tensor> expected = of(alone, alone), got = of(several, several.module());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Doubles a = values(expected[i]), b = values(got[i]);
    for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(b[k], a[k], 1e-11) << "parameter " << i;
  }
  sum(expected[0] * expected[0]).backward();  // gradients of gradients
  sum(got[0] * got[0]).backward();
  const Doubles a = values(alone.a.weight.grad()), b = values(several.module().a.weight.grad());
  for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(b[k], a[k], 1e-10);
}

TEST(GradientsOfReplicasMadeAgain, AreRefusedAndNotLost) {
  const TestDevices devices(2);
  DataParallel model{Pair()};
  const Tensor x = ones({4, 3}, {.dtype = kFloat64, .device = "cuda:0"});
  const Tensor before = sum(model(x));
  model.module().invalidate_replicas();
  const Tensor after = sum(model(x));
  EXPECT_THROW((before + after).backward(), AutogradError);
  EXPECT_FALSE(model.module().b.bias->grad().defined());
  sum(model(x)).backward();
  EXPECT_EQ(values(model.module().b.bias->grad()), Doubles{4});
}

TEST(GradientsDuringBackward, AreNotToBeUsed) {
  const TestDevices devices(2);
  DataParallel model{Pair()};
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const Tensor y = sum(model(ones({4, 3}, {.dtype = kFloat64, .device = "cuda:0"})));
  register_hook(y, [&](const Tensor&) {
    EXPECT_THROW(optimizer.step(), AutogradError);
    EXPECT_THROW(optim::clip_grad_value_(model.parameters(), 1), AutogradError);
    EXPECT_THROW(optimizer.zero_grad(), AutogradError);
    EXPECT_THROW(model.zero_grad(), AutogradError);
    EXPECT_THROW(model.module().a.weight.set_grad({}), AutogradError);
    EXPECT_THROW(model.module().to(kFloat32), AutogradError);
    return Tensor();
  });
  y.backward();
  EXPECT_EQ(values(model.module().b.bias->grad()), Doubles{4});
  optimizer.step();
}

TEST(GradientsOfReplicasMadeAgain, AreRefusedWhenTheModelIsGone) {
  const TestDevices devices(2);
  const Tensor x = ones({4, 3}, {.dtype = kFloat64, .device = "cuda:0", .requires_grad = true});
  Tensor loss;
  {
    DataParallel model{Pair()};
    loss = sum(model(x));
  }
  EXPECT_THROW(loss.backward(), AutogradError);
  EXPECT_TRUE(gradients({loss}, {x})[0].defined());  // needs no gradients of parameters
}

// Moving a module reads its gradients one after the other, when some have moved already.
TEST(GradientsOfAModuleThatMoves, AreSummedFirst) {
  const TestDevices devices(2);
  DataParallel model{Pair()};
  const Tensor x = ones({4, 3}, {.dtype = kFloat64, .device = "cuda:0"});
  sum(model(x)).backward();
  {
    const auto guard = model.no_sync();
    sum(model.module().b.weight * 2).backward();
    sum(model(x)).backward();
  }
  model.module().to("cpu");
  EXPECT_EQ(values(model.module().b.bias->grad()), Doubles{8});
  model.module().to("cuda:0");
  sum(model(x)).backward();
  EXPECT_EQ(values(model.module().b.bias->grad()), Doubles{12});
}

TEST(GradientsOfReplicasMadeAgain, AreNotDroppedForWantOfMemory) {
  for (std::uint64_t nth = 1, failed = 1; failed; ++nth) {
    SimulatedDevices devices({.count = 2});
    DataParallel model{Pair()};
    const Tensor x = ones({4, 3}, {.dtype = kFloat64, .device = "cuda:0"});
    sum(model(x)).backward();
    {
      const auto guard = model.no_sync();
      sum(model(x)).backward();
    }
    model.module().invalidate_replicas();
    devices.fault().fail_allocation({.device = 1, .nth = nth});
    failed = 0;
    try {
      model(x);
    } catch (const Error&) {
      failed = 1;
    }
    devices.fault().clear();
    model(x);
    ASSERT_EQ(values(model.module().b.bias->grad()), Doubles{8}) << "allocation " << nth;
  }
}

}  // namespace
}  // namespace lockstep::gradients_by_hand
