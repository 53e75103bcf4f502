// Backward: values against formulas, graphs of many shapes, several devices, and errors.
#include <lockstep/autograd/autograd.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <thread>

#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "autograd/record.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

Tensor leaf(std::initializer_list<double> numbers, const Device& device = {}) {
  return tensor(numbers, {.dtype = kFloat64, .device = device, .requires_grad = true});
}

TEST(Backward, FollowsTheChainRule) {
  const Tensor x = leaf({1, 2, 3}), y = leaf({4, 5, 6});
  const Tensor quotient = y / x;  // made before the product: gradients are summed in that order
  sum(x * x * y + quotient).backward();
  std::vector<double> of_x, of_y;
  for (const auto& [a, b] : {std::pair(1., 4.), std::pair(2., 5.), std::pair(3., 6.)}) {
    of_x.push_back(2 * a * b - b / (a * a));
    of_y.push_back(a * a + 1 / a);
  }
  EXPECT_EQ(values(x.grad()), of_x);
  EXPECT_EQ(values(y.grad()), of_y);
}

TEST(Backward, AddsUpEveryUse) {
  const Tensor x = leaf({3});
  const Tensor y = x * x;
  sum(y * y + y + x).backward();  // x^4 + x^2 + x
  EXPECT_EQ(values(x.grad()), std::vector<double>{4 * 27 + 6 + 1});
}

TEST(Backward, AccumulatesUntilTheGradientIsCleared) {
  Tensor x = leaf({1, 2});
  sum(x * 3.0).backward();
  sum(x * 4.0).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{7, 7}));
  x.set_grad(Tensor());
  sum(x * 5.0).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{5, 5}));
}

TEST(Backward, KeepsGradientsOfDifferentLeavesApart) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  for (int i = 0; i < 2; ++i) sum(a + b).backward();
  EXPECT_EQ(values(a.grad()), (std::vector<double>{2, 2}));
  EXPECT_EQ(values(b.grad()), (std::vector<double>{2, 2}));
  Tensor(a.grad()).fill_(0);
  EXPECT_EQ(values(b.grad()), (std::vector<double>{2, 2}));
}

TEST(Backward, DoesNotKeepTheCallersGradientAsItsOwn) {
  const Tensor x = leaf({1, 2});
  Tensor seed = tensor({5., 6.}, {.dtype = kFloat64});
  x.backward(seed);
  (x + 0.0).backward(seed);
  EXPECT_EQ(values(seed), (std::vector<double>{5, 6}));
  EXPECT_EQ(values(x.grad()), (std::vector<double>{10, 12}));
  seed.fill_(0);
  EXPECT_EQ(values(x.grad()), (std::vector<double>{10, 12}));
}

TEST(Backward, TakesSeveralRootsAtOnce) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * x, z = sum(y), unrelated = sum(x);
  backward(std::vector<Tensor>{y, z, unrelated},
           std::vector<Tensor>{tensor({10., 20.}, {.dtype = kFloat64}), Tensor(), Tensor()});
  EXPECT_EQ(values(x.grad()), (std::vector<double>{(10 + 1) * 2 + 1, (20 + 1) * 4 + 1}));
}

TEST(Backward, TakesTheSameRootTwice) {
  const Tensor x = leaf({3});
  const Tensor y = sum(x * x);
  backward(std::vector<Tensor>{y, y});
  EXPECT_EQ(values(x.grad()), std::vector<double>{12});
}

TEST(Backward, FreesTheGraphUnlessItIsRetained) {
  const Tensor x = leaf({3});
  const Tensor y = sum(x * x);
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>{12});
  const std::string refused = thrown<AutogradError>([&] { y.backward(); });
  EXPECT_NE(refused.find("retain_graph"), std::string::npos) << refused;
  EXPECT_EQ(values(x.grad()), std::vector<double>{12});
}

TEST(Backward, GivesMemoryBackWithTheGraph) {
  const TestDevices devices(1);
  const Tensor x = full({1000}, 2., {.device = "cuda:0", .requires_grad = true});
  sum(x * x).backward();
  const std::size_t with_gradient = memory_stats("cuda:0").in_use;
  for (int i = 0; i < 3; ++i) {
    const Tensor y = sum(x * x * x);
    y.backward();
  }
  EXPECT_EQ(memory_stats("cuda:0").in_use, with_gradient);
}

TEST(Backward, LeavesTensorsWithoutGradientAlone) {
  const Tensor x = leaf({1, 2}), constant = tensor({3., 4.}, {.dtype = kFloat64});
  sum(x * constant).backward();
  EXPECT_FALSE(constant.grad().defined());
  EXPECT_EQ(values(x.grad()), (std::vector<double>{3, 4}));
}

TEST(Backward, StopsAtDetachAndNoGrad) {
  const Tensor x = leaf({3});
  Tensor frozen;
  {
    const NoGrad guard;
    frozen = x * x;
  }
  EXPECT_FALSE(frozen.requires_grad());
  sum(x * x.detach() * frozen).backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>{27});
}

TEST(BackwardRefuses, RootsThatItCannotStartFrom) {
  const TestDevices devices(1);
  const Tensor x = leaf({1, 2});
  EXPECT_EQ(thrown<AutogradError>([] { tensor(1.).backward(); }),
            "[backward] this tensor of shape [] does not require a gradient: nothing it was computed from does (all "
            "parameters frozen, computed under NoGrad, detached, returned by a CapturedStep, or computed by an operation "
            "without a gradient, such as argmax or a comparison?). Call backward() on the loss before detach(), outside "
            "NoGrad");
  EXPECT_EQ(
      thrown<ShapeError>([&] { (x * 2.0).backward(); }),
      "[backward] only a root with one element has a default gradient, got shape [2]: pass its gradient, or reduce "
      "it to a scalar");
  EXPECT_THROW((x * 2.0).backward(ones({3}, {.dtype = kFloat64})), ShapeError);
  EXPECT_THROW((x * 2.0).backward(ones({2})), DTypeError);
  EXPECT_THROW((x * 2.0).backward(ones({2}, {.dtype = kFloat64, .device = "cuda:0"})), DeviceMismatch);
  EXPECT_THROW(backward(std::vector<Tensor>{}), InvalidArgument);
  EXPECT_THROW(backward(std::vector<Tensor>{sum(x)}, std::vector<Tensor>(2)), InvalidArgument);
  EXPECT_FALSE(x.grad().defined());
}

TEST(CreateGraph, GivesSecondAndThirdDerivatives) {
  const Tensor x = leaf({2, 3});
  const std::vector<Tensor> wanted{x};
  const Tensor y = x * x * x * x;
  const Tensor seed = ones({2}, {.dtype = kFloat64});
  const Tensor first = gradients(std::vector<Tensor>{y}, wanted, std::vector<Tensor>{seed}, {.create_graph = true})[0];
  const Tensor second =
      gradients(std::vector<Tensor>{first}, wanted, std::vector<Tensor>{seed}, {.create_graph = true})[0];
  const Tensor third = gradients(std::vector<Tensor>{second}, wanted, std::vector<Tensor>{seed})[0];
  EXPECT_EQ(values(first), (std::vector<double>{32, 108}));
  EXPECT_EQ(values(second), (std::vector<double>{48, 108}));
  EXPECT_EQ(values(third), (std::vector<double>{48, 72}));
  EXPECT_FALSE(x.grad().defined());
}

TEST(CreateGraph, AccumulatesGradientsThatCanBeDifferentiated) {
  const Tensor x = leaf({3}), y = leaf({5});
  sum(x * x * y).backward({}, false, true);
  const Tensor of_x = x.grad();  // 2xy
  EXPECT_TRUE(of_x.requires_grad());
  EXPECT_EQ(values(gradients(std::vector<Tensor>{of_x}, std::vector<Tensor>{y})[0]), std::vector<double>{6});
  Tensor(x).set_grad(Tensor());  // x and its gradient's graph hold each other
  Tensor(y).set_grad(Tensor());
}

TEST(CreateGraph, KeepsGradientsOfDifferentLeavesApart) {
  const Tensor a = leaf({1}), b = leaf({2});
  sum(a + b).backward({}, false, true);
  sum(a * 1.0).backward();
  EXPECT_EQ(values(a.grad()), std::vector<double>{2});
  EXPECT_EQ(values(b.grad()), std::vector<double>{1});
}

TEST(GradientsOf, AnyTensorsWithoutAccumulating) {
  const Tensor x = leaf({2}), unused = leaf({1}), elsewhere = leaf({4});
  const Tensor y = x * x, z = sum(y * y * elsewhere);
  const auto found = gradients(std::vector<Tensor>{z}, std::vector<Tensor>{y, x, unused, y, z});
  EXPECT_EQ(values(found[0]), std::vector<double>{2 * 4 * 4});
  EXPECT_EQ(values(found[1]), std::vector<double>{32 * 4});
  EXPECT_FALSE(found[2].defined());
  EXPECT_EQ(values(found[3]), values(found[0]));
  EXPECT_EQ(values(found[4]), std::vector<double>{1});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(elsewhere.grad().defined());
}

TEST(GradientsOf, UndefinedTensorsAreRefused) {
  const Tensor x = leaf({2});
  EXPECT_THROW(gradients(std::vector<Tensor>{x * x}, std::vector<Tensor>{x, Tensor()}), InvalidArgument);
  EXPECT_THROW(gradients(std::vector<Tensor>{Tensor()}, std::vector<Tensor>{x}), InvalidArgument);
}

TEST(GradientsOf, RefuseWhatIsUnlikeTheInput) {
  const auto message = [](const Tensor& wrong) {
    const Tensor x = leaf({1, 2, 3});
    Tensor y = ones({2}, {.dtype = kFloat64});
    const Tensor seed = ones_like(y);
    autograd::record("Wrong", y, {&x}, [wrong](const Tensor&) { return autograd::Gradients{wrong}; });
    return thrown<AutogradError>([&] { gradients({y}, {x}, std::span(&seed, 1)); });
  };
  EXPECT_EQ(message(ones({4}, {.dtype = kFloat64})),
            "[gradients] expected the gradient of input 0 to be [3] of float64 on cpu, got [4] of float64 on cpu");
  EXPECT_EQ(message(ones({3})),
            "[gradients] expected the gradient of input 0 to be [3] of float64 on cpu, got [3] of float32 on cpu");
}

TEST(GradientsOf, RunsOnlyWhatLeadsToThem) {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  register_hook(x, [](const Tensor&) -> Tensor { throw InvalidArgument("not on the way"); });
  EXPECT_EQ(values(gradients(std::vector<Tensor>{sum(y * 3.0)}, std::vector<Tensor>{y})[0]), std::vector<double>{3});
  EXPECT_THROW(gradients(std::vector<Tensor>{sum(y)}, std::vector<Tensor>{tensor(1.)}), AutogradError);
}

TEST(Backward, ThroughAMillionAddsAndTheirDestruction) {
  const Tensor x = leaf({1});
  {
    Tensor y = x * 1.0;
    for (int i = 0; i < 1000000; ++i) y = y + 1.0;
    sum(y).backward();
  }
  EXPECT_EQ(values(x.grad()), std::vector<double>{1});
}

TEST(Backward, OfALongChainThatWasNeverRun) {
  const Tensor x = leaf({1});
  Tensor y = x * 1.0;
  for (int i = 0; i < 200000; ++i) y = y * x;  // saves its operands
  EXPECT_EQ(values(y), std::vector<double>{1});
  y = Tensor();
  EXPECT_FALSE(x.grad().defined());
}

// Random expressions of three leaves on three devices.
Tensor expression(unsigned seed, const std::vector<Tensor>& leaves, const std::vector<Device>& devices) {
  std::mt19937 random(seed);
  std::vector<Tensor> known = leaves;
  for (int i = 0; i < 25; ++i) {
    const Device device = devices[random() % devices.size()];
    const Tensor a = known[random() % known.size()].to(device), b = known[random() % known.size()].to(device);
    switch (random() % 5) {
      case 0: known.push_back(a + b); break;
      case 1: known.push_back(a * b * 0.5); break;
      case 2: known.push_back(a - b * 0.25); break;
      case 3: known.push_back(cat({a.narrow(0, 0, 4), b.narrow(0, 4, 4)})); break;
      default: known.push_back(relu(a) + b);
    }
    if (known.size() > 6) known.erase(known.begin() + std::ptrdiff_t(random() % 3));
  }
  Tensor total = sum(known.back()).cpu();
  for (const Tensor& part : known) total = total + sum(part).cpu();
  return total;
}

std::vector<Tensor> leaves_on(const std::vector<Device>& devices) {
  std::mt19937 random(1);
  std::vector<Tensor> leaves;
  for (const Device& device : devices) {
    std::vector<double> numbers;
    for (int k = 0; k < 8; ++k) numbers.push_back(double(random() % 2000) / 1000 - 1);
    leaves.push_back(tensor(numbers, {.dtype = kFloat64, .device = device, .requires_grad = true}));
  }
  return leaves;
}

TEST(Backward, OverSeveralDevicesEqualsTheCpuWhateverTheTiming) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    const std::vector<Device> on_cpu(3);
    const std::vector<Tensor> expected = leaves_on(on_cpu);
    expression(seed, expected, on_cpu).backward();
    SimulatedDevices simulated({.count = 2, .seed = seed, .max_delay_us = 100});
    const std::vector<Device> devices = {"cpu", "cuda:0", "cuda:1"};
    const std::vector<Tensor> leaves = leaves_on(devices);
    for (int pass = 0; pass < 2; ++pass) {
      expression(seed, leaves, devices).backward();
      for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(leaves[i].grad().defined(), expected[i].grad().defined()) << "seed " << seed;
        if (!leaves[i].grad().defined()) continue;
        EXPECT_EQ(leaves[i].grad().device(), devices[i]);
        const auto got = values(leaves[i].grad()), right = values(expected[i].grad());
        for (std::size_t k = 0; k < got.size(); ++k)
          EXPECT_NEAR(got[k], right[k] * (pass + 1), 1e-9 * (1 + std::abs(right[k]))) << "seed " << seed;
      }
    }
  }
}

TEST(Backward, GivesTheSameBitsEveryTime) {
  std::vector<std::vector<double>> first;
  for (std::uint64_t timing = 0; timing < 8; ++timing) {
    SimulatedDevices simulated({.count = 2, .seed = timing, .max_delay_us = timing ? 200 : 0});
    const std::vector<Device> devices = {"cpu", "cuda:0", "cuda:1"};
    const std::vector<Tensor> leaves = leaves_on(devices);
    expression(7, leaves, devices).backward();
    std::vector<std::vector<double>> all;
    for (const Tensor& x : leaves) all.push_back(x.grad().defined() ? values(x.grad()) : std::vector<double>());
    if (first.empty()) first = all;
    EXPECT_EQ(all, first);
  }
}

TEST(Backward, OnSeveralThreadsAddsToOneLeaf) {
  const Tensor x = ones({100}, {.requires_grad = true});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) sum(x * 2.0).backward();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(values(x.grad()), std::vector<double>(100, 4 * 200 * 2));
}

// The race checker of simulated devices throws if two accesses are not ordered.
TEST(Backward, IsOrderedAfterAForwardPassOnAnotherStream) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedDevices devices({.count = 1, .seed = seed, .max_delay_us = 200});
    Tensor x = full({64}, 3., {.device = "cuda:0", .requires_grad = true});
    const Stream side = Stream::from_pool("cuda:0");
    for (int pass = 1; pass <= 3; ++pass) {
      Tensor y;
      side.wait(current_stream("cuda:0").record());
      {
        const StreamGuard guard(side);
        y = x * x;
      }
      y.backward(full({64}, 2., {.device = "cuda:0"}));
      EXPECT_EQ(values(x.grad()), std::vector<double>(64, 12));
      const NoGrad guard;
      Tensor gradient = x.grad();
      gradient.fill_(0);
    }
    synchronize("cuda:0");
  }
}

TEST(Backward, MayItselfRunOnAnotherStream) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedDevices devices({.count = 2, .seed = seed, .max_delay_us = 200});
    const Tensor x = full({64}, 3., {.device = "cuda:0", .requires_grad = true});
    const Tensor y = sum((x * x).cuda(1));
    const Stream side = Stream::from_pool("cuda:1"), other = Stream::from_pool("cuda:0");
    side.wait(current_stream("cuda:1").record());
    other.wait(current_stream("cuda:0").record());
    const StreamGuard first(side), second(other);
    y.backward();
    EXPECT_EQ(values(x.grad()), std::vector<double>(64, 6));
    synchronize("cuda:0");
    synchronize("cuda:1");
  }
}

TEST(BackwardError, NamesTheForwardOpAndLeavesTheLibraryWorking) {
  const TestDevices devices(2);
  const std::size_t before = memory_stats("cuda:0").in_use + memory_stats("cuda:1").in_use;
  {
    Tensor x = full({8}, 2., {.device = "cuda:0", .requires_grad = true});
    Tensor w = full({8}, 3., {.device = "cuda:1", .requires_grad = true});
    const Tensor y = sum((x * 2.0).cuda(1) * w);
    {
      const NoGrad guard;
      w.fill_(4);
    }
    const std::string failed = thrown<AutogradError>([&] { y.backward(); });
    EXPECT_NE(failed.find("[MulBackward]"), std::string::npos) << failed;
    EXPECT_NE(failed.find("changed in place"), std::string::npos) << failed;
    EXPECT_NE(failed.find("(in backward of Mul)"), std::string::npos) << failed;
    EXPECT_FALSE(x.grad().defined());
    sum((x * 2.0).cuda(1) * w).backward();
    EXPECT_EQ(values(x.grad()), std::vector<double>(8, 8));
  }
  EXPECT_EQ(memory_stats("cuda:0").in_use + memory_stats("cuda:1").in_use, before);
}

// Two devices fail; the first failure in time is thrown, not a later one.
TEST(BackwardError, IsTheOneThatCameFirst) {
  const TestDevices devices(2);
  const Tensor x = ones({2}, {.requires_grad = true});
  const Tensor parts[] = {x.to("cuda:0") * 2.0, x.to("cuda:1") * 2.0};
  std::atomic<int> running = 0;
  for (int i = 0; i < 2; ++i)
    register_hook(parts[i], [&running, i](const Tensor&) -> Tensor {
      ++running;
      while (running < 2) std::this_thread::yield();
      if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      throw std::runtime_error(i == 0 ? "second" : "first");
    });
  EXPECT_EQ(thrown<std::runtime_error>([&] { backward({sum(parts[0]), sum(parts[1])}); }), "first");
}

TEST(BackwardError, OfADeviceIsTyped) {
  SimulatedDevices devices({.count = 1});
  const Tensor x = full({8}, 2., {.device = "cuda:0", .requires_grad = true});
  const Tensor y = sum(x * x);
  devices.fault().fail_allocation({.device = 0, .nth = 2});
  const std::string failed = thrown<OutOfMemory>([&] { y.backward(); });
  EXPECT_NE(failed.find("in backward of"), std::string::npos) << failed;
  devices.fault().clear();
  sum(x * x).backward();
  synchronize("cuda:0");
  EXPECT_EQ(values(x.grad()), std::vector<double>(8, 4));
}

}  // namespace
}  // namespace lockstep
