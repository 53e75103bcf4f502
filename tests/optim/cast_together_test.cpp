// Autocast regions cast the parameters of an optimizer together.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/runtime/trace.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep::cast_together {
namespace {

using testing::values;

// The parameters of an optimizer are cast in one launch, once a region has seen them.
TEST(Autocast, CastsTheParametersOfAnOptimizerTogether) {
  const TestDevices devices(1);
  if (!are_simulated()) GTEST_SKIP() << "traces simulated devices";
  const Device device("cuda:0");
  std::vector<Tensor> weights;
  for (int i = 0; i < 4; ++i) weights.push_back(randn({3, 3}).to(device).requires_grad_());
  optim::SGD optimizer(weights, {.lr = 0.5});
  const Tensor x = randn({2, 3}).to(device).to(kBFloat16);
  const auto step = [&](std::size_t used) {
    const Autocast region(kBFloat16);
    Tensor y = x;
    for (std::size_t i = 0; i < used; ++i) y = mm(y, weights[i]);
    return y;
  };
  const auto copies_of = [&](std::size_t used) {
    synchronize(device);
    const Trace trace;
    step(used);
    synchronize(device);
    long copies = 0;
    for (const TraceEvent& event : trace.events()) copies += std::string_view(event.name) == "copy";
    return copies;
  };
  EXPECT_EQ(copies_of(3), 3);  // each by itself: no region has seen them
  EXPECT_EQ(copies_of(3), 1);
  EXPECT_EQ(copies_of(4), 2);  // the last one is new
  EXPECT_EQ(copies_of(4), 1);
  sum(step(4)).backward();
  optimizer.step();
  const Tensor now = step(4);
  Tensor expected = x;
  for (const Tensor& weight : weights) expected = mm(expected, weight.detach().to(kBFloat16));
  EXPECT_EQ(values(now), values(expected));
  {
    const NoGrad guard;  // an evaluation casts what it uses
    EXPECT_EQ(copies_of(2), 2);
  }
  weights[1].requires_grad_(false);
  EXPECT_EQ(values(step(4)), values(expected));
}

}  // namespace
}  // namespace lockstep::cast_together
