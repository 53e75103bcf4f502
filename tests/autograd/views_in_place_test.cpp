// In-place changes of views while gradients are recorded. Expected numbers are PyTorch 2.15's.
#include <gtest/gtest.h>

#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/autograd/gradcheck.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/indexing.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;
using Values = std::vector<double>;

Tensor counted(const Shape& sizes) { return arange(double(sizes.elements()), {.dtype = kFloat64}).view(sizes); }

TEST(ViewsInPlace, ChangeTheirBase) {
  Tensor x = tensor({1., 2., 3., 4.});
  x.requires_grad_();
  const Tensor y = x * 2.;
  y.slice(0, 1, 3).mul_(3.);
  EXPECT_EQ(values(y), (Values{2, 12, 18, 8}));
  EXPECT_EQ(y.grad_fn(), "CopySlicesBackward");
  sum(y * tensor({1., 10., 100., 1000.})).backward();
  EXPECT_EQ(values(x.grad()), (Values{2, 60, 600, 2000}));
}

TEST(ViewsInPlace, OfATensorWithoutGradientGiveItOne) {
  Tensor x = tensor({1., 2.});
  x.requires_grad_();
  const Tensor base = zeros({2, 2}, {.dtype = x.dtype()});
  const Tensor first = base[0], second = base[1];
  base[0] = x;
  EXPECT_TRUE(first.requires_grad());
  EXPECT_TRUE(second.requires_grad());
  EXPECT_FALSE(first.is_leaf());
  base[1] = x * x;
  sum(first * second).backward();
  EXPECT_EQ(values(x.grad()), (Values{3, 12}));
}

TEST(ViewsInPlace, MadeBeforeSeeAChangeOfTheBase) {
  Tensor x = tensor({1., 2., 3., 4.});
  x.requires_grad_();
  Tensor y = x * 2.;
  const Tensor part = y.slice(0, 1, 3);
  y.mul_(5.);
  EXPECT_EQ(part.grad_fn(), "AsStridedBackward");
  sum(part * tensor({1., 10.})).backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 10, 100, 0}));
}

TEST(ViewsInPlace, MadeBeforeAreFollowedByGradients) {
  const Tensor x = tensor({1., 2.}).to(kFloat64).requires_grad_();
  const Tensor outs = zeros({2, 2}, {.dtype = kFloat64});
  const Tensor last = outs[1];
  outs[1] = x * x;
  EXPECT_EQ(values(gradients({sum(last * last + x)}, {x})[0]), (Values{5, 33}));
  Tensor y = x.clone();
  const Tensor same = y.view({2});
  y.add_(x);
  EXPECT_EQ(values(gradients({sum(same * same)}, {x})[0]), (Values{8, 16}));
}

TEST(ViewsInPlace, MadeUnderNoGradAreChangedUnderNoGradOnly) {
  const Tensor x = tensor({1., 2.}).requires_grad_();
  const Tensor y = x * 1.;
  Tensor view;
  {
    const NoGrad guard;
    view = y.slice(0, 0, 1).squeeze(0);
    view.mul_(1.);
  }
  EXPECT_NE(thrown<AutogradError>([&] { view.mul_(5.); }).find("was made under NoGrad"), std::string::npos);
  EXPECT_NE(thrown<AutogradError>([&] { y.slice(0, 0, 1).detach_(); }).find("Use detach()"), std::string::npos);
  EXPECT_EQ(values(y), (Values{1, 2}));
}

TEST(ViewsInPlace, OfTheWholeAreTensorsOfTheirOwn) {
  const Tensor x = tensor({1., 2.}).requires_grad_();
  const Tensor y = x * 1.;
  for (const Tensor& view : {y.squeeze(0), y.reshape({2}), y.flatten(), y.t()}) {
    Tensor hooked = view;
    hooked.register_hook([](const Tensor& g) { return g * 0.; });
  }
  sum(y + y.squeeze(0)).backward();
  EXPECT_EQ(values(x.grad()), (Values{2, 2}));
}

// Hooks of the changed tensor see the gradients that reach it by what the operation saved, as in PyTorch.
TEST(InPlaceFunctions, HaveHooksThatSecondDerivativesPass) {
  const Tensor x = tensor({0.3, -0.7}).to(kFloat64).requires_grad_();
  Tensor y = x.clone();
  y.tanh_();
  y.register_hook([](const Tensor& g) { return g * 1.5; });
  const Tensor g = gradients({sum(square(y))}, {x}, {}, {.create_graph = true})[0];
  const Values second = values(gradients({sum(square(g))}, {x})[0]);
  EXPECT_NEAR(second[0], 4.9101, 1e-4);
  EXPECT_NEAR(second[1], 0.6297, 1e-4);
}

TEST(ViewsInPlace, ThatAreExpandedSumTheirGradients) {
  Tensor x = tensor({1., 2.}).view({1, 2});
  x = x.detach().requires_grad_();
  Tensor y = x * 3.;
  const Tensor rows = y.expand({3, 2});
  y.add_(1.);
  sum(rows * tensor({1., 2., 3., 4., 5., 6.}).view({3, 2})).backward();
  EXPECT_EQ(values(x.grad()), (Values{27, 36}));
}

TEST(ViewsInPlace, OfViewsAndTransposes) {
  Tensor x = counted({2, 3}).detach().requires_grad_(), w = tensor({2., 3.}, {.dtype = kFloat64});
  w.requires_grad_();
  const Tensor y = x * 1.;
  Tensor(y.t()[1]).mul_(w);
  sum(y * counted({2, 3})).backward();
  EXPECT_EQ(values(x.grad()), (Values{0, 2, 2, 3, 12, 5}));
  EXPECT_EQ(values(w.grad()), (Values{1, 16}));
}

TEST(ViewsInPlace, ByIndices) {
  Tensor x = ones({2}).requires_grad_();
  Tensor base = zeros({3});
  base.index_put_({tensor({0, 2})}, x * 5., true);
  sum(base).backward();
  EXPECT_EQ(values(x.grad()), (Values{5, 5}));
  const Tensor grid = zeros({2, 2});
  grid.index({Slice(), 0}) = x;
  sum(grid * tensor({1., 2., 3., 4.}, {.dtype = kFloat32}).view({2, 2})).backward();
  EXPECT_EQ(values(x.grad()), (Values{6, 8}));
}

// Every in-place operation on a view of a view, with other views of the same base used before and after.
TEST(ViewsInPlace, HaveTheGradientsOfTheNumericJacobian) {
  const Tensor x = randn({3, 4}, {.dtype = kFloat64}), v = randn({2}, {.dtype = kFloat64});
  const auto changed = [](auto change) {
    return [change](const std::vector<Tensor>& in) {
      const Tensor y = in[0] * 2., before = y.slice(1, 2, 4);
      Tensor column = y.slice(0, 1, 3).t()[3];
      change(column, in[1]);
      return y * in[0] + sum(before * column.view({2, 1}).slice(0, 0, 1));
    };
  };
  using Change = void (*)(Tensor&, const Tensor&);
  const Change changes[] = {
      [](Tensor& t, const Tensor& other) { t.add_(other, 3); },
      [](Tensor& t, const Tensor& other) { t.mul_(other); },
      [](Tensor& t, const Tensor& other) { t.div_(other); },
      [](Tensor& t, const Tensor& other) { t.copy_(other); },
      [](Tensor& t, const Tensor&) { t.mul_(3.); },
      [](Tensor& t, const Tensor&) { t.fill_(3.); },
      [](Tensor& t, const Tensor&) { t.mul_(t); },
      [](Tensor& t, const Tensor&) { t.exp_(); },
  };
  for (const Change change : changes) {
    gradcheck(changed(change), {x, v});
    gradgradcheck(changed(change), {x, v});
  }
}

// A hand-written recurrent cell, as in PyTorch, against the same cell without in-place changes.
TEST(ViewsInPlace, KeepTheStepsOfARecurrentCell) {
  const std::int64_t steps = 4, batch = 3, features = 2;
  const auto made = [](const Shape& sizes, double scale) {
    return (sin(counted(sizes)) * scale).detach().requires_grad_();
  };
  Tensor w = made({features, features}, 0.7), u = made({features, features}, 0.5),
         x = made({steps, batch, features}, 1);
  const auto run = [&](bool in_place) {
    for (Tensor* each : {&w, &u, &x}) each->set_grad({});
    const Tensor outs = zeros({steps, batch, features}, {.dtype = kFloat64});
    std::vector<Tensor> all;
    Tensor h = zeros({batch, features}, {.dtype = kFloat64});
    for (std::int64_t t = 0; t < steps; ++t) {
      h = tanh(matmul(x[t], w) + matmul(h, u));
      if (in_place)
        outs[t] = h;
      else
        all.push_back(h);
    }
    const Tensor joined = in_place ? outs : stack(all);
    sum(square(joined) * counted({steps, batch, features})).backward();
    return std::vector{values(joined), values(w.grad()), values(u.grad()), values(x.grad())};
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(ViewsInPlace, LeaveHooksWithTheVersionThatTheyCameTo) {
  Tensor x = tensor({1., 2., 3., 4.});
  x.requires_grad_();
  Tensor y = x * 2.;
  y.retain_grad();
  Values before, after;
  register_hook(y, [&](const Tensor& g) { return before = values(g), Tensor(); });
  y.slice(0, 1, 3).mul_(3.);
  register_hook(y, [&](const Tensor& g) { return after = values(g), Tensor(); });
  sum(y * tensor({1., 10., 100., 1000.})).backward();
  EXPECT_EQ(before, (Values{1, 30, 300, 1000}));
  EXPECT_EQ(after, (Values{1, 10, 100, 1000}));
  EXPECT_EQ(values(y.grad()), (Values{1, 10, 100, 1000}));
}

TEST(ViewsInPlace, OfImagesKeepTheirLayout) {
  Tensor x = counted({1, 2, 3, 2}).detach().requires_grad_();
  const Tensor y = x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}) * 1.;
  y.select(1, 1).mul_(4.);
  sum(y * y).backward();
  Values expected;
  for (int i = 0; i < 12; ++i) expected.push_back(i < 6 ? 2 * i : 32 * i);
  EXPECT_EQ(values(x.grad()), expected);
}

TEST(ViewsInPlaceRefuse, ViewsOfALeaf) {
  Tensor x = ones({3}).requires_grad_();
  EXPECT_EQ(thrown<AutogradError>([&] { x[0].mul_(2.); }),
            "[mul_] cannot change a view of a leaf of shape [3] in place, because the leaf requires a gradient: change "
            "it under NoGrad");
  const NoGrad guard;
  x[0].mul_(2.);
  EXPECT_EQ(values(x), (Values{2, 1, 1}));
}

TEST(ViewsInPlaceRefuse, MemoryThatBackwardNeedsOrCannotFollow) {
  Tensor x = ones({4}).requires_grad_();
  Tensor y = x * 2.;
  {
    const Tensor part = y.slice(0, 0, 2), squares = part * part;
    EXPECT_NE(thrown<AutogradError>([&] { y.slice(0, 2, 4).mul_(2.); }).find("saved for backward"), std::string::npos);
    EXPECT_THROW(y.mul_(2.), AutogradError);
  }
  {
    const Tensor other = y.detach();
    EXPECT_NE(thrown<AutogradError>([&] { y.mul_(2.); }).find("shared with a detach()"), std::string::npos);
    EXPECT_THROW(y[0].mul_(2.), AutogradError);
  }
  Tensor part;
  {
    const NoGrad guard;
    part = y[0];
  }
  EXPECT_NE(thrown<AutogradError>([&] { y.mul_(2.); }).find("view made under NoGrad"), std::string::npos);
  part = {};
  Tensor leaf = zeros({2}), own = leaf[0];
  own.requires_grad_();
  EXPECT_THROW(leaf.copy_(y.slice(0, 0, 2)), AutogradError);  // own would not be a leaf any more
  EXPECT_EQ(values(y), Values(4, 2));
  y.mul_(2.);
  EXPECT_EQ(values(y), Values(4, 4));
}

TEST(ViewsInPlace, LeaveNoMemoryBehind) {
  const std::size_t before = memory_stats(Device()).in_use;
  {
    Tensor x = ones({64}).requires_grad_();
    const Tensor base = zeros({8, 64});
    std::vector<Tensor> views;
    for (int t = 0; t < 8; ++t) {
      views.push_back(base[t]);
      base[t] = x * double(t);
    }
    sum(base * base).backward();
    EXPECT_EQ(values(x.grad())[0], 280);
  }
  EXPECT_EQ(memory_stats(Device()).in_use, before);
}

}  // namespace
}  // namespace lockstep
