// add_layer_norm, and the norms of autocast regions, against the operations that they are composed of.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/runtime/trace.h>

#include "core/text.h"
#include "ops/all_ops.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::add_norm {
namespace {

using testing::values;

Tensor leaf(const Tensor& x) { return x.detach().clone().requires_grad_(); }

// The greatest difference, in units of 1 + |expected|.
double difference(const Tensor& got, const Tensor& expected) {
  const std::vector<double> a = values(got), b = values(expected);
  EXPECT_EQ(got.sizes(), expected.sizes());
  double greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(std::isnan(a[i]), std::isnan(b[i]));
    greatest = std::max(greatest, std::abs(a[i] - b[i]) / (1 + std::abs(b[i])));
  }
  return greatest;
}

// The rounding error of a dtype, and of sums of some hundred terms in float32.
double rounding(DType dtype) { return dtype == kBFloat16 ? 1. / 256 : dtype == kFloat16 ? 1. / 2048 : 3e-5; }

struct Case {
  DType stream, branch;  // of x, and of the branch and the norm
  bool in_region() const { return branch != kFloat32; }
};
const std::vector<Case> kCases = {
    {kFloat32, kFloat32}, {kFloat32, kBFloat16}, {kFloat32, kFloat16}, {kBFloat16, kBFloat16}, {kFloat16, kFloat16}};

// Rows of no whole pack, of one pack, of a warp, of a block, and more than the threads of a block keep.
const std::vector<Shape> kSizes = {{3, 1},   {2, 3, 7}, {5, 8},       {2, 2, 100},
                                   {3, 256}, {2, 1025}, {1, 3, 4096}, {2, 8200}};

struct Inputs {
  Tensor x, branch, weight, bias;
  std::vector<Tensor> all() const {
    std::vector<Tensor> tensors = {x, branch};
    for (const Tensor* const more : {&weight, &bias})
      if (more->defined()) tensors.push_back(*more);
    return tensors;
  }
};

Inputs inputs_of(const Case& of, const Shape& sizes, const char* device, bool affine) {
  const Shape length = {sizes.back()};
  const auto made = [&](const Shape& shape, DType dtype) { return leaf(randn(shape).to(device).to(dtype)); };
  Inputs inputs = {made(sizes, of.stream), made(sizes, of.branch), {}, {}};
  if (affine) inputs.weight = made(length, kFloat32), inputs.bias = made(length, kFloat32);
  return inputs;
}

SumAndNorm fused(const Case& of, const Inputs& in) {
  std::optional<Autocast> region;
  if (of.in_region()) region.emplace(of.branch);
  return add_layer_norm(in.x, in.branch, {in.x.size(-1)}, in.weight, in.bias);
}
// The same with conversions and one operation after the other. The sum is rounded as it is stored.
SumAndNorm composed(const Case& of, const Inputs& in) {
  const Tensor sum = (in.x.to(kFloat32) + in.branch.to(kFloat32)).to(of.stream);
  return {sum, layer_norm(sum.to(kFloat32), {in.x.size(-1)}, in.weight, in.bias).to(of.branch)};
}

void expect_alike(const Case& of, const Inputs& in, double tolerance_of_sums) {
  const SumAndNorm got = fused(of, in), expected = composed(of, in);
  ASSERT_EQ(got.sum.dtype(), of.stream);
  ASSERT_EQ(got.norm.dtype(), of.branch);
  EXPECT_EQ(values(got.sum), values(expected.sum));
  EXPECT_LE(difference(got.norm, expected.norm), rounding(of.branch));
  const Tensor pull_sum = randn(in.x.sizes()).to(in.x.device()).to(of.stream),
               pull_norm = randn(in.x.sizes()).to(in.x.device()).to(of.branch);
  for (const int used : {1, 2, 3}) {  // the sum, the norm, both
    std::vector<Tensor> roots, expected_roots, pulls, wanted = {in.x, in.branch};
    if (used & 1) roots.push_back(got.sum), expected_roots.push_back(expected.sum), pulls.push_back(pull_sum);
    if (used & 2) roots.push_back(got.norm), expected_roots.push_back(expected.norm), pulls.push_back(pull_norm);
    if (used & 2) wanted = in.all();
    const std::vector<Tensor> g = gradients(roots, wanted, pulls, {.retain_graph = true}),
                              h = gradients(expected_roots, wanted, pulls, {.retain_graph = true});
    for (std::size_t i = 0; i < g.size(); ++i) {
      ASSERT_EQ(g[i].dtype(), wanted[i].dtype()) << i;
      // The composed gradient of a 16-bit stream rounds each of its parts.
      const double tolerance =
          i < 2 ? 2 * std::max(rounding(of.stream), rounding(wanted[i].dtype())) : tolerance_of_sums;
      EXPECT_LE(difference(g[i], h[i]), tolerance) << "gradient " << i << ", used " << used;
    }
  }
}

TEST(AddLayerNorm, IsTheSumAndItsNorm) {
  const TestDevices devices(1);
  for (const char* const device : {"cpu", "cuda:0"})
    for (const Case& of : kCases)
      for (const Shape& sizes : kSizes)
        for (const bool affine : {false, true}) {
          SCOPED_TRACE(text(device, ": ", sizes, " of ", of.stream, " and ", of.branch, affine ? ", affine" : ""));
          expect_alike(of, inputs_of(of, sizes, device, affine), 1e-4);
        }
}

TEST(AddLayerNorm, TakesAnyLayout) {
  const TestDevices devices(1);
  for (const char* const device : {"cpu", "cuda:0"})
    for (const Case& of : kCases) {
      Inputs in = inputs_of(of, {4, 6, 8}, device, true);
      in.x = testing::with_gaps(in.x).requires_grad_();
      in.branch = testing::reversed_in_memory(in.branch).requires_grad_();
      in.weight = testing::with_gaps(in.weight).requires_grad_();
      expect_alike(of, in, 1e-4);
      // Rows that begin at any address.
      Inputs moved = inputs_of(of, {3, 8}, device, true);
      moved.x = leaf(randn({25}).to(device).to(of.stream)).narrow(0, 1, 24).view({3, 8}).detach().requires_grad_();
      expect_alike(of, moved, 1e-4);
    }
}

TEST(AddLayerNorm, NormalizesSeveralDimensions) {
  const Tensor x = randn({2, 3, 4, 5}), branch = randn({2, 3, 4, 5}), weight = randn({4, 5});
  const auto [sum, norm] = add_layer_norm(x, branch, {4, 5}, weight, {}, 0.1);
  EXPECT_EQ(values(sum), values(x + branch));
  EXPECT_EQ(values(norm), values(layer_norm(x + branch, {4, 5}, weight, {}, 0.1)));
}

TEST(AddLayerNorm, GivesOnlyTheGradientsThatAreNeeded) {
  const TestDevices devices(1);
  for (const char* const device : {"cpu", "cuda:0"})
    for (const Case& of : kCases)
      for (std::size_t only = 0; only < 4; ++only) {
        Inputs in = inputs_of(of, {6, 16}, device, true);
        const std::vector<Tensor> all = in.all();
        for (std::size_t i = 0; i < 4; ++i)
          if (i != only) Tensor(all[i]).requires_grad_(false);
        const Tensor pull = randn({6, 16}).to(device).to(of.branch);
        const auto of_norm = [&](const SumAndNorm& both) {
          return gradients(std::vector{both.norm}, std::vector{all[only]}, std::vector{pull})[0];
        };
        EXPECT_LE(difference(of_norm(fused(of, in)), of_norm(composed(of, in))),
                  2 * std::max(rounding(of.stream), rounding(all[only].dtype())))
            << only;
      }
}

// Gradients of gradients are those of the composed operations.
TEST(AddLayerNorm, IsTwiceDifferentiable) {
  for (const Case& of : kCases) {
    const Inputs in = inputs_of(of, {3, 6}, "cpu", true);
    const Tensor pull_sum = randn({3, 6}).to(of.stream), pull_norm = randn({3, 6}).to(of.branch);
    const auto twice = [&](const SumAndNorm& both) {
      const std::vector<Tensor> first = gradients(std::vector{both.sum, both.norm}, in.all(),
                                                  std::vector{pull_sum, pull_norm}, {.create_graph = true});
      Tensor total = zeros({});
      for (const Tensor& g : first) total = total + sum(square(g.to(kFloat32)));
      return gradients(std::vector{total}, in.all());
    };
    const std::vector<Tensor> got = twice(fused(of, in)), expected = twice(composed(of, in));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].defined(), expected[i].defined()) << i;  // no first gradient depends on the bias
      if (!got[i].defined()) continue;
      EXPECT_LE(difference(got[i], expected[i]), of.in_region() ? 0.1 : 1e-4) << i << ' ' << of.branch;
    }
  }
}

TEST(AddLayerNorm, ComposesWhatItHasNoKernelFor) {
  const Tensor x = randn({2, 3, 4}), row = randn({4});
  for (const DType dtype : {kFloat64, kFloat16, kBFloat16}) {
    const Tensor a = x.to(dtype), weight = row.to(dtype);
    const auto [sum, norm] = add_layer_norm(a, weight, {4}, weight);
    EXPECT_EQ(values(sum), values(a + weight));
    EXPECT_EQ(values(norm), values(layer_norm(a + weight, {4}, weight)));
    EXPECT_EQ(norm.dtype(), dtype);
  }
  EXPECT_EQ(values(add_layer_norm(x, row, {4}).norm), values(layer_norm(x + row, {4})));  // broadcast
  EXPECT_EQ(add_layer_norm(zeros({0, 4}), zeros({0, 4}), {4}).norm.sizes(), (Shape{0, 4}));
  EXPECT_EQ(testing::thrown<ShapeError>([&] { add_layer_norm(x, x, {3}); }),
            "[layer_norm] expected x to end in the sizes [3], got [2, 3, 4]");
  EXPECT_THROW(add_layer_norm(x, x, {4}, row.to(kFloat64)), DTypeError);
}

TEST(AddLayerNorm, IsOneLaunchEachWay) {
  const TestDevices devices(1);
  if (!are_simulated()) GTEST_SKIP() << "traces simulated devices";
  for (const Case& of : kCases) {
    const Inputs in = inputs_of(of, {4, 16}, "cuda:0", true);
    const Tensor pull_sum = randn({4, 16}).to("cuda:0").to(of.stream),
                 pull_norm = randn({4, 16}).to("cuda:0").to(of.branch);
    synchronize(Device("cuda:0"));
    const Trace trace;
    const SumAndNorm both = fused(of, in);
    gradients(std::vector{both.sum, both.norm}, in.all(), std::vector{pull_sum, pull_norm});
    synchronize(Device("cuda:0"));
    std::vector<std::string> names;
    for (const TraceEvent& event : trace.events())
      if (std::string_view(event.name) != "discard") names.push_back(event.name);  // which only a simulation has
    EXPECT_EQ(names, (std::vector<std::string>{"add_layer_norm", "add_layer_norm_gradients"})) << of.branch;
  }
}

// The norm of a region reads float32 or 16 bits, and writes the region's dtype: what a product behind it would take.
TEST(NormOfARegion, IsThatOfFloat32RoundedOnce) {
  const TestDevices devices(1);
  for (const char* const device : {"cpu", "cuda:0"})
    for (const DType region : {kBFloat16, kFloat16})
      for (const DType of_x : {kFloat32, kBFloat16, kFloat16})
        for (const Shape& sizes : {Shape{3, 7}, {2, 64}, {2, 1100}})
          for (const bool root : {false, true}) {
            SCOPED_TRACE(text(device, ": ", sizes, " of ", of_x, " in ", region, root ? ", rms_norm" : ""));
            const Shape last = {sizes[1]};
            const Tensor x = leaf(randn(sizes).to(device).to(of_x)), weight = leaf(randn(last).to(device)),
                         bias = leaf(randn(last).to(device)), pull = randn(sizes).to(device).to(region);
            const auto norm_of = [&](const Tensor& v) {
              return root ? rms_norm(v, last, weight) : layer_norm(v, last, weight, bias);
            };
            const Tensor expected = norm_of(x.to(kFloat32)).to(region);
            Tensor got;
            {
              const Autocast scope(region);
              got = norm_of(x);
            }
            ASSERT_EQ(got.dtype(), region);
            if (std::string_view(device) == "cpu")
              EXPECT_EQ(values(got), values(expected));
            else
              EXPECT_LE(difference(got, expected), rounding(region));
            std::vector<Tensor> leaves = {x, weight};
            if (!root) leaves.push_back(bias);
            const auto of = [&](const Tensor& y) { return gradients(std::vector{y}, leaves, std::vector{pull}); };
            const std::vector<Tensor> g = of(got), h = of(expected);
            for (std::size_t i = 0; i < g.size(); ++i) {
              EXPECT_EQ(g[i].dtype(), leaves[i].dtype());
              EXPECT_LE(difference(g[i], h[i]), rounding(leaves[i].dtype())) << i;
            }
          }
}

TEST(NormOfARegion, LeavesFloat64AsItIsAndTakes16BitWeights) {
  const Tensor x = randn({2, 4}, {.dtype = kFloat64});
  const Tensor weight = leaf(randn({4}).to(kBFloat16));
  const Autocast region(kBFloat16);
  EXPECT_EQ(layer_norm(x, {4}).dtype(), kFloat64);
  const Tensor y = layer_norm(x.to(kFloat32), {4}, weight, weight);
  EXPECT_EQ(y.dtype(), kBFloat16);
  y.backward(ones({2, 4}, {.dtype = kBFloat16}));
  EXPECT_EQ(weight.grad().dtype(), kBFloat16);
  EXPECT_EQ(layer_norm(zeros({0, 4}), {4}).dtype(), kBFloat16);
  EXPECT_THROW(layer_norm(x.to(kFloat32), {4}, randn({4}, {.dtype = kFloat64})), DTypeError);
}

// One node computes both results, so hooks would see a part of the sum's gradient.
TEST(AddLayerNorm, RefusesWhatNeedsTheWholeGradientOfItsSum) {
  const Tensor x = leaf(randn({2, 3, 5})), branch = randn({2, 3, 5});
  const SumAndNorm of = add_layer_norm(x, branch, {5});
  const auto gradient_of_sum = [&] { gradients(std::vector{sum(of.norm)}, std::vector{of.sum}); };
  EXPECT_NE(testing::thrown<AutogradError>([&] { of.sum.register_hook([](const Tensor& g) { return g; }); })
                .find("an output of AddLayerNorm"),
            std::string::npos);
  EXPECT_THROW(Tensor(of.sum).retain_grad(), AutogradError);
  EXPECT_THROW(gradient_of_sum(), AutogradError);
  int calls = 0;
  of.norm.register_hook([&](const Tensor& g) {
    ++calls;
    return g * 2.;
  });
  Tensor(of.norm).retain_grad();
  (sum(of.norm * branch) + sum(of.sum)).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(of.norm.grad()), values(branch * 2.));
}

TEST(AddLayerNorm, NeedsGradientsOfItsSumOnlyForItsTerms) {
  const Tensor x = randn({3, 5}), weight = leaf(randn({5}));
  const SumAndNorm of = add_layer_norm(x, x, {5}, weight);
  EXPECT_FALSE(of.sum.requires_grad());
  EXPECT_TRUE(of.norm.requires_grad());
}

TEST(AddLayerNorm, RefusesWhatLayerNormRefuses) {
  const Tensor x = randn({3, 5}).to(kBFloat16), weight = ones({5});
  EXPECT_THROW(add_layer_norm(x, x, {5}, weight), DTypeError);
  EXPECT_EQ(add_layer_norm(x, x, {5}, weight.to(kBFloat16)).norm.dtype(), kBFloat16);
}

}  // namespace
}  // namespace lockstep::add_norm
