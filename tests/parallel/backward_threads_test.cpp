// Backward from several threads, and inside replicas.
#include <gtest/gtest.h>

#include <thread>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/parallel/parallel_apply.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

// Checks the gradient of sum(x^2 on one device times x on another): 3x^2.
void run(const Device& first, const Device& second, double number) {
  const Tensor x = full({16}, number, {.dtype = kFloat64, .device = first, .requires_grad = true});
  for (int pass = 1; pass <= 3; ++pass) {
    sum((x * x).to(second) * x.to(second)).backward();
    ASSERT_EQ(values(x.grad()), std::vector<double>(16, pass * 3 * number * number));
  }
}

TEST(BackwardThreads, OfSeparateGraphsRunAtOnce) {
  SimulatedDevices devices({.count = 2, .seed = 9, .max_delay_us = 50});
  const Device places[] = {"cpu", "cuda:0", "cuda:1"};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) run(places[(t + i) % 3], places[(t * 2 + 1) % 3], t + 1);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(BackwardThreads, MayBeThoseOfReplicas) {
  SimulatedDevices devices({.count = 3, .seed = 4, .max_delay_us = 50});
  const std::vector<Device> all = {"cuda:0", "cuda:1", "cuda:2"};
  run_replicas(all, [&](std::size_t i) {
    for (std::size_t round = 0; round < 5; ++round) {
      run(all[i], all[i], double(i + 1));
      run(all[i], all[(i + round) % 3], double(i + 1));  // the graph reaches into another replica's device
      run("cpu", all[(i + 1) % 3], double(i + 1));
    }
  });
}

TEST(BackwardThreads, NestInHooks) {
  const TestDevices devices(2);
  const Tensor x = full({4}, 2., {.device = "cuda:0", .requires_grad = true});
  const Tensor y = x * x;
  register_hook(y, [](const Tensor&) {
    const GradMode on(true);
    run("cuda:1", "cuda:0", 5);
    return Tensor();
  });
  sum(y.cuda(1)).backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>(4, 4));
}

TEST(BackwardThreads, RecordOneLeafFromSeveralAtOnce) {
  const Tensor x = full({4}, 2., {.requires_grad = true});
  for (int round = 0; round < 20; ++round) {
    std::vector<Tensor> parts(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) threads.emplace_back([&, t] { parts[t] = sum(x * double(t + 1)); });
    for (std::thread& thread : threads) thread.join();
    backward(parts);
  }
  EXPECT_EQ(values(x.grad()), std::vector<double>(4, 200));
}

TEST(GradModeScope, IsOfItsThreadAndReachesReplicas) {
  const TestDevices devices(2);
  const NoGrad guard;
  std::thread([] { EXPECT_TRUE(grad_enabled()); }).join();
  EXPECT_FALSE(grad_enabled());
  run_replicas(std::vector<Device>{"cuda:0", "cuda:1"}, [](std::size_t) { EXPECT_FALSE(grad_enabled()); });
  {
    const GradMode on(true);
    EXPECT_TRUE(grad_enabled());
  }
  EXPECT_FALSE(grad_enabled());
}

}  // namespace
}  // namespace lockstep
