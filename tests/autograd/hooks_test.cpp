// Hooks on tensors and on leaves.
#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

TEST(Hook, SeesTheWholeGradientOnce) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  const Tensor y = x * 3.0;
  std::vector<std::vector<double>> seen;
  register_hook(y, [&](const Tensor& g) {
    seen.push_back(values(g));
    return Tensor();
  });
  sum(y * 2.0 + y).backward();
  EXPECT_EQ(seen, (std::vector<std::vector<double>>{{3, 3}}));
  EXPECT_EQ(values(x.grad()), (std::vector<double>{9, 9}));
}

TEST(Hook, ReplacesTheGradientWithWhatItReturns) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  const Tensor y = x * 3.0;
  register_hook(y, [](const Tensor& g) { return g * 10.0; });
  register_hook(y, [](const Tensor& g) { return g + 1.0; });  // after the first
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{33, 33}));
}

TEST(Hook, OfALeafRunsBeforeEachAccumulation) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  register_hook(x, [](const Tensor& g) { return g * 2.0; });
  sum(x * 3.0).backward();
  sum(x * 4.0).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{14, 14}));
}

TEST(Hook, MayReturnWhatItsCallerGoesOnToChange) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  Tensor mine = tensor({5., 6.});
  register_hook(x, [&](const Tensor&) { return mine.detach(); });
  sum(x).backward();
  mine.fill_(9);
  EXPECT_EQ(values(x.grad()), (std::vector<double>{5, 6}));
}

TEST(Hook, ThatReturnsAPartOfALargeArrayDoesNotKeepAllOfIt) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  register_hook(x, [](const Tensor&) { return ones({1 << 20}).narrow(0, 0, 2); });
  const std::size_t before = memory_stats(Device()).in_use;
  sum(x).backward();
  EXPECT_LT(memory_stats(Device()).in_use, before + 1024);
  EXPECT_EQ(values(x.grad()), (std::vector<double>{1, 1}));
}

// The derivative of exp(x) is exp(x), which Exp saved as its output.
TEST(Hook, MayItselfRunABackwardBeforeAGradientOfAGradient) {
  Tensor x = tensor({0.5, 1.}, {.dtype = kFloat64, .requires_grad = true});
  Tensor other = tensor({1.}, {.requires_grad = true});
  const Tensor y = exp(x);
  register_hook(y, [&](const Tensor&) {
    const GradMode recording(true);
    sum(other * 2.0).backward();
    return Tensor();
  });
  const Tensor first = gradients({sum(y)}, {x}, {}, {.create_graph = true})[0];
  ASSERT_TRUE(first.requires_grad());
  EXPECT_EQ(values(gradients({sum(first)}, {x})[0]), values(y));
}

TEST(Hook, IsTakenBackByItsHandle) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  const Tensor y = x * 3.0;
  const HookHandle on_leaf = register_hook(x, [](const Tensor& g) { return g * 2.0; });
  const HookHandle on_result = register_hook(y, [](const Tensor& g) { return g * 10.0; });
  register_hook(x, [](const Tensor& g) { return g + 1.0; });
  sum(y).backward({}, true);
  EXPECT_EQ(values(x.grad()), (std::vector<double>{61, 61}));
  x.set_grad(Tensor());
  on_leaf.remove();
  on_leaf.remove();
  sum(y).backward({}, true);
  EXPECT_EQ(values(x.grad()), (std::vector<double>{31, 31}));
  x.set_grad(Tensor());
  on_result.remove();
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{4, 4}));
}

TEST(Hook, MayTakeItselfBackAndAddAnother) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  std::string calls;
  HookHandle first = register_accumulated_hook(x, [&](const Tensor&) {
    calls += 'a';
    first.remove();
    register_accumulated_hook(x, [&](const Tensor&) { calls += 'b'; });
  });
  sum(x).backward();
  EXPECT_EQ(calls, "a");
  sum(x).backward();
  EXPECT_EQ(calls, "ab");
}

TEST(Hook, OutlivesItsHandleAndNotItsTensor) {
  HookHandle handle;
  auto held = std::make_shared<int>();
  {
    Tensor x = tensor({1.}, {.requires_grad = true});
    handle = register_hook(x, [held](const Tensor& g) { return g; });
    handle = HookHandle(handle);
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
  handle.remove();
}

TEST(Hook, NeedsATensorWithGradient) {
  EXPECT_EQ(thrown<AutogradError>([] { register_hook(ones({2}), [](const Tensor&) { return Tensor(); }); }),
            "[register_hook] expected a tensor that requires a gradient, got one that does not");
}

TEST(Hook, NeedsAFunction) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  EXPECT_THROW(register_hook(x, {}), InvalidArgument);
  EXPECT_THROW(register_accumulated_hook(x, {}), InvalidArgument);
}

TEST(Hook, MustKeepShapeDtypeAndDevice) {
  const TestDevices devices(1);
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  const auto run = [&](auto hook) {
    const Tensor y = x * 3.0;
    register_hook(y, hook);
    sum(y).backward();
  };
  EXPECT_NE(thrown<ShapeError>([&] {
              run([](const Tensor&) { return ones({3}); });
            }).find("hook to keep the shape [2], got [3]"),
            std::string::npos);
  EXPECT_THROW(run([](const Tensor& g) { return g.to(kFloat64); }), DTypeError);
  EXPECT_THROW(run([](const Tensor& g) { return g.cuda(); }), DeviceMismatch);
  EXPECT_FALSE(x.grad().defined());
  register_hook(x, [](const Tensor&) { return ones({1}); });
  EXPECT_THROW(sum(x).backward(), ShapeError);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Hook, MayThrowAnything) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  const Tensor y = x * 3.0;
  register_hook(y, [](const Tensor&) -> Tensor { throw std::runtime_error("mine"); });
  EXPECT_EQ(thrown<std::runtime_error>([&] { sum(y).backward(); }), "mine");
  sum(x * 1.0).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{1, 1}));
}

TEST(AccumulatedHook, RunsOnceWhenTheGradientIsThere) {
  Tensor x = tensor({1., 2.}, {.requires_grad = true});
  int calls = 0;
  register_accumulated_hook(x, [&](const Tensor& leaf) {
    ++calls;
    EXPECT_TRUE(leaf.is_same(x));
    EXPECT_EQ(values(leaf.grad()), (std::vector<double>{5, 5}));
  });
  sum(x * 3.0 + x * 2.0).backward();
  EXPECT_EQ(calls, 1);
}

TEST(AccumulatedHook, RunsOnTheThreadOfItsDevice) {
  const TestDevices devices(2);
  const Tensor x = ones({2}, {.device = "cuda:0", .requires_grad = true});
  const Tensor y = ones({2}, {.device = "cuda:1", .requires_grad = true});
  std::thread::id of_x, of_y;
  register_accumulated_hook(x, [&](const Tensor&) { of_x = std::this_thread::get_id(); });
  register_accumulated_hook(y, [&](const Tensor&) { of_y = std::this_thread::get_id(); });
  sum(x.cuda(1) * y).backward();
  EXPECT_NE(of_x, of_y);
  EXPECT_NE(of_x, std::thread::id());
}

TEST(AccumulatedHook, IsForLeavesWithGradient) {
  Tensor x = tensor({1.}, {.requires_grad = true});
  EXPECT_THROW(register_accumulated_hook(x * 2.0, [](const Tensor&) {}), AutogradError);
  EXPECT_THROW(register_accumulated_hook(ones({1}), [](const Tensor&) {}), AutogradError);
}

TEST(Hooks, SeeSumsOfBranchesThatLieAsTheBranchesDo) {
  const auto images = [](const Tensor& x) { return x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}); };
  const Tensor x = images(randn({2, 3, 4, 5})).requires_grad_();
  const Tensor y = x * 2;
  Shape strides;
  register_hook(y, [&](const Tensor& g) {
    strides = g.strides();
    return g;
  });
  (relu(y) + exp(y) + y * 3).backward(images(ones({2, 3, 4, 5})));
  EXPECT_EQ(strides, x.strides());
}

}  // namespace
}  // namespace lockstep
