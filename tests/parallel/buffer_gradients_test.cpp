// Buffers that require a gradient: replicas share them as they share parameters.
#include <gtest/gtest.h>

#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;
using Doubles = std::vector<double>;

struct Scaling : nn::Module<Scaling> {
  nn::Buffer scale{full({1}, 3.)};
  nn::Parameter weight{ones({1})};
  bool counts = false;
  Scaling() { scale.requires_grad_(); }
  auto members() { return nn::members("scale", scale, "weight", weight, "counts", counts); }
  Tensor forward(const Tensor& x) {
    if (counts) {
      const NoGrad guard;
      scale.add_(ones({1}, {.device = x.device()}) * double(x.size(0)));
    }
    return x * scale * weight;
  }
};

TEST(BuffersThatRequireAGradient, GetTheSumOverAllReplicas) {
  for (const int count : {1, 2, 3, 5}) {
    const TestDevices devices(count);
    DataParallel model{Scaling()};
    const Tensor x = arange(7, {.dtype = kFloat32}).view({7, 1});
    sum(model(x)).backward();
    EXPECT_EQ(values(model.module().scale.grad()), Doubles{21}) << count;
    EXPECT_EQ(values(model.module().weight.grad()), Doubles{63}) << count;
    {
      const auto guard = model.no_sync();
      sum(model(x)).backward();
    }
    EXPECT_EQ(values(model.module().scale.grad()), Doubles{42}) << count;
    EXPECT_EQ(values(gradients({sum(model(x))}, {model.module().scale})[0]), Doubles{21}) << count;
  }
}

TEST(BuffersThatRequireAGradient, AreTrainedOnAllDevices) {
  const TestDevices devices(3);
  DataParallel model{Scaling()};
  optim::SGD optimizer({model.module().scale}, {.lr = 0.5});
  sum(model(ones({6, 1}))).backward();
  optimizer.step();
  EXPECT_EQ(values(model(ones({3, 1}))), Doubles(3, 0));
  {
    const NoGrad guard;
    model.module().scale.fill_(5);
  }
  EXPECT_EQ(values(model(ones({3, 1}))), Doubles(3, 5));
}

// BufferSync::primary: changes in other replicas are lost, even if they changed equally often.
TEST(BuffersThatRequireAGradient, FollowThePrimarysValue) {
  const TestDevices devices(3);
  DataParallel model{Scaling()};
  model.module().counts = true;
  const Tensor x = ones({5, 1});  // 2, 2 and 1 row
  EXPECT_EQ(values(model(x)), (Doubles{5, 5, 5, 5, 4}));
  EXPECT_EQ(values(model(x)), (Doubles{7, 7, 7, 7, 6}));
  EXPECT_EQ(values(model.module().scale), Doubles{7});
}

TEST(BuffersThatRequireAGradient, AreNotSentInTheSteadyState) {
  SimulatedDevices devices({.count = 2});
  DataParallel model{Scaling()};
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const auto copies_of_a_step = [&] {
    const std::uint64_t before = devices.counts(0).copies;
    optimizer.zero_grad();
    model.module().scale.set_grad(Tensor());
    sum(model(ones({4, 1}))).backward();
    optimizer.step();
    return devices.counts(0).copies - before;
  };
  copies_of_a_step();
  const std::uint64_t with_buffer = copies_of_a_step();
  {
    const NoGrad guard;
    for (const double value : {1, 2, 3}) model.module().scale.fill_(value);
  }
  copies_of_a_step();
  EXPECT_EQ(copies_of_a_step(), with_buffer);
  model.module().scale.requires_grad_(false);
  copies_of_a_step();
  EXPECT_EQ(with_buffer, copies_of_a_step() + 1);  // of its gradient, to the bucket
}

}  // namespace
}  // namespace lockstep
