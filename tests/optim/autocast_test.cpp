// Casts of parameters that an optimizer has, in autocast regions.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/values.h"

namespace lockstep {
namespace {

// A region reads a parameter only when it is used: another stream may be changing it until then.
TEST(Autocast, CastsAParameterWhenItIsUsed) {
  const SimulatedDevices devices({.count = 1});
  const TensorOptions here = {.device = "cuda:0"};
  const std::vector<Tensor> weights = {randn({8, 8}, here).requires_grad_(), randn({8, 8}, here).requires_grad_()};
  const optim::SGD optimizer(weights, {.lr = 0.1});
  const Tensor x = randn({2, 8}, here);
  const auto product = [&](std::size_t i) {
    const Autocast region(kBFloat16);
    return matmul(x, weights[i]);
  };
  for (std::size_t i = 0; i < 2; ++i) product(i);
  synchronize("cuda:0");
  const Stream changes = Stream::from_pool("cuda:0"), uses = Stream::from_pool("cuda:0");
  std::optional<cuda::Event> changed;
  {
    const StreamGuard on(changes);
    const NoGrad guard;
    const Tensor work = randn({300, 300}, here);
    matmul(work, work);
    Tensor(weights[1]).mul_(1.5);
    changed = changes.record();
  }
  const StreamGuard on(uses);
  const Autocast region(kBFloat16);
  matmul(x, weights[0]);
  uses.wait(*changed);
  const Tensor got = matmul(x, weights[1]);
  synchronize("cuda:0");
  EXPECT_EQ(testing::values(got), testing::values(product(1)));
}

}  // namespace
}  // namespace lockstep
