// The timing of threads changes no bit.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/parallel/parallel_apply.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::values;

// The gradient of a tensor that all replicas use: 1e8 + 1 - 1e8, which float32 sums to 0 or to 1.
double shared_gradient(const std::array<int, 3>& delays) {
  const TestDevices devices(3);
  const double factors[] = {1e8, 1, -1e8};
  const Tensor shared = ones({1}, {.requires_grad = true});
  std::vector<Tensor> parts(3);
  run_replicas(try_all_gpus(), [&](std::size_t i) {
    std::this_thread::sleep_for(milliseconds(delays[i]));
    parts[i] = (shared.to(try_gpu(int(i))) * factors[i]).to("cuda:0");
  });
  backward(parts);
  return values(shared.grad())[0];
}

TEST(Timing, OfReplicasDoesNotOrderTheSumOfWhatTheyShare) {
  const double first = shared_gradient({0, 20, 40});
  EXPECT_EQ(shared_gradient({20, 0, 40}), first);
  EXPECT_EQ(shared_gradient({40, 20, 0}), first);
}

// The same with delays in backward.
double shared_gradient_after(const std::array<int, 3>& delays) {
  const TestDevices devices(3);
  const double factors[] = {1e8, 1, -1e8};
  const Tensor shared = ones({1}, {.requires_grad = true});
  std::vector<Tensor> parts;
  for (int i = 0; i < 3; ++i) {
    const Tensor there = shared.to(try_gpu(i));
    register_hook(there, [delay = delays[std::size_t(i)]](const Tensor&) {
      std::this_thread::sleep_for(milliseconds(delay));
      return Tensor();
    });
    parts.push_back(there * factors[i]);
  }
  backward(parts);
  return values(shared.grad())[0];
}

TEST(Timing, OfBackwardDoesNotOrderTheSumOfWhatReplicasShare) {
  const double first = shared_gradient_after({0, 20, 40});
  EXPECT_EQ(shared_gradient_after({20, 0, 40}), first);
  EXPECT_EQ(shared_gradient_after({40, 20, 0}), first);
  EXPECT_EQ(shared_gradient_after({0, 40, 20}), first);
}

std::vector<double> drawn_in_hooks(const std::array<int, 2>& delays) {
  const TestDevices devices(3);
  manual_seed(5);
  const Tensor x = ones({2}, {.device = "cuda:0", .requires_grad = true});
  const Tensor parts[] = {x.to("cuda:1") * 2, x.to("cuda:2") * 2};
  double drawn[2];
  for (int i = 0; i < 2; ++i)
    register_hook(parts[i], [&drawn, &delays, i](const Tensor&) {
      std::this_thread::sleep_for(milliseconds(delays[std::size_t(i)]));
      drawn[i] = rand({}, {.dtype = kFloat64}).item<double>();
      return Tensor();
    });
  backward({sum(parts[0]), sum(parts[1])});
  return {drawn[0], drawn[1], rand({}, {.dtype = kFloat64}).item<double>()};
}

TEST(Timing, OfHooksDoesNotOrderWhatTheyDraw) {
  const std::vector<double> first = drawn_in_hooks({0, 50});
  EXPECT_EQ(drawn_in_hooks({50, 0}), first);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[0], first[2]);
  manual_seed(5);
  EXPECT_NE(first[2], (rand({}, {.dtype = kFloat64}).item<double>())) << "backward drew nothing";
}

// Draws on a device's thread, whose sequence differs between backwards; the caller's sequence advances anyway.
TEST(Timing, OfBackwardsGivesTheirHooksOtherNumbers) {
  const TestDevices devices(2);
  const Tensor x = ones({2}, {.device = "cuda:0", .requires_grad = true});
  std::vector<double> drawn;
  for (int pass = 0; pass < 2; ++pass) {
    const Tensor y = x.to("cuda:1") * 2;
    register_hook(y, [&drawn](const Tensor&) {
      drawn.push_back(rand({}, {.dtype = kFloat64}).item<double>());
      return Tensor();
    });
    sum(y.to("cuda:0")).backward();
  }
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_NE(drawn[0], drawn[1]);
}

}  // namespace
}  // namespace lockstep
