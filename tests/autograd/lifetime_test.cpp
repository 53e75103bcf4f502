// Lifetimes of graphs: long chains are freed in a loop, and users must break reference cycles.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>

#include "support/repetitions.h"

namespace lockstep {
namespace {

constexpr int kLong = testing::repetitions(200000);

std::size_t in_use() { return memory_stats(Device()).in_use; }

Tensor leaf() { return zeros({1}, {.requires_grad = true}); }

class Chain : public ::testing::Test {
 protected:
  // Each link holds the link before it; the last one is freed first.
  template <class Link>
  void expect_goes_in_a_loop(const Link& link) {
    const std::size_t before = in_use();
    {
      Tensor last = leaf();
      for (int i = 0; i < kLong; ++i) last = link(std::exchange(last, Tensor()));
    }
    EXPECT_EQ(in_use(), before);
  }
};

TEST_F(Chain, OfHooksOfLeaves) {
  expect_goes_in_a_loop([](const Tensor& before) {
    Tensor next = leaf();
    register_hook(next, [before](const Tensor&) { return Tensor(); });
    return next;
  });
}

TEST_F(Chain, OfHooksOfResults) {
  expect_goes_in_a_loop([](const Tensor& before) {
    Tensor next = leaf() * 2.0;
    register_hook(next, [before](const Tensor&) { return Tensor(); });
    return next;
  });
}

TEST_F(Chain, OfAccumulatedHooks) {
  expect_goes_in_a_loop([](const Tensor& before) {
    Tensor next = leaf();
    register_accumulated_hook(next, [before](const Tensor&) {});
    return next;
  });
}

TEST_F(Chain, OfGradients) {
  expect_goes_in_a_loop([](const Tensor& before) {
    Tensor next = leaf();
    next.set_grad(before);
    return next;
  });
}

TEST_F(Chain, OfCustomGradients) {
  expect_goes_in_a_loop([](const Tensor& before) {
    return custom_gradient("Holds", zeros({1}), {leaf()}, [before](const Tensor& g) { return std::vector{g}; });
  });
}

// x holds its gradient, whose graph holds x.
TEST(CreateGraph, HoldsTheLeafUntilItsGradientIsDropped) {
  const std::size_t before = in_use();
  for (int i = 0; i < 3; ++i) {
    Tensor x = leaf();
    sum(x * x).backward({}, true, true);
    x.set_grad({});
  }
  EXPECT_EQ(in_use(), before);
}

TEST(CreateGraph, HoldsNothingForGradientsThatAreNotAccumulated) {
  const std::size_t before = in_use();
  {
    const Tensor x = leaf();
    EXPECT_TRUE(gradients({sum(x * x)}, {x}, {}, {.create_graph = true})[0].requires_grad());
  }
  EXPECT_EQ(in_use(), before);
}

TEST(Hook, ThatHoldsItsOwnTensorLetsItGoWhenItIsRemoved) {
  const std::size_t before = in_use();
  {
    const Tensor x = leaf(), y = x * 2.0;
    const HookHandle of_leaf = register_hook(x, [x](const Tensor&) { return Tensor(); });
    const HookHandle of_result = register_hook(y, [y](const Tensor&) { return Tensor(); });
    const HookHandle after = register_accumulated_hook(x, [x](const Tensor&) {});
    of_leaf.remove();
    of_result.remove();
    after.remove();
  }
  EXPECT_EQ(in_use(), before);
}

TEST(Hook, KeepsWhatItHoldsToTheEndOfACallThatRemovesIt) {
  const Tensor x = leaf();
  HookHandle handle;
  const auto held = std::make_shared<int>(7);
  int seen = 0;
  handle = register_hook(x, [&handle, &seen, kept = std::shared_ptr<int>(held)](const Tensor&) {
    handle.remove();
    seen = *kept;
    EXPECT_EQ(kept.use_count(), 2);
    return Tensor();
  });
  sum(x).backward();
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace lockstep
