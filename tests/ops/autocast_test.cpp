#include <thread>

#include <lockstep/runtime/memory.h>

#include "ops/all_ops.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

Tensor leaf(const Tensor& x) { return x.clone().detach().requires_grad_(); }

TEST(Autocast, ComputesProductsIn16Bits) {
  const Tensor a = randn({4, 4}), b = randn({4, 4}), bias = randn({4});
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const Autocast region(dtype);
    EXPECT_EQ(autocast_dtype(), dtype);
    EXPECT_EQ(mm(a, b).dtype(), dtype);
    EXPECT_EQ(matmul(a, bias).dtype(), dtype);
    EXPECT_EQ(bmm(a.unsqueeze(0), b.unsqueeze(0)).dtype(), dtype);
    EXPECT_EQ(linear(a, b, bias).dtype(), dtype);
    EXPECT_EQ(addmm(bias, a, b).dtype(), dtype);
    EXPECT_EQ(dot(bias, bias).dtype(), dtype);
    EXPECT_EQ(conv1d(a.unsqueeze(0), randn({2, 4, 3})).dtype(), dtype);
    EXPECT_EQ(conv_transpose1d(a.unsqueeze(0), randn({4, 2, 3})).dtype(), dtype);
  }
  EXPECT_EQ(autocast_dtype(), std::nullopt);
  EXPECT_EQ(mm(a, b).dtype(), kFloat32);
}

TEST(Autocast, GivesWhatTheSameProductOfCastsGives) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"}) {
    const Tensor a = randn({5, 3}).to(device), b = randn({3, 2}).to(device);
    const Tensor expected = mm(a.to(kBFloat16), b.to(kBFloat16));
    const Autocast region(kBFloat16);
    EXPECT_EQ(values(mm(a, b)), values(expected));
  }
}

TEST(Autocast, TakesInFloat32WhatNeedsRange) {
  const Tensor x = rand({4, 4}).to(kBFloat16) + 1.0;
  const Tensor scale = ones({4});
  const Tensor classes = tensor({0, 1, 2, 3});
  const Autocast region(kBFloat16);
  for (const Tensor& y : {softmax(x, 1), log_softmax(x, 1), logsumexp(x, {1}), exp(x), log(x), pow(x, 3), rsqrt(x),
                          sum(x), sum(x, {0}), prod(x), cumsum(x, 0), norm(x), softplus(x), cross_entropy(x, classes),
                          mse_loss(x, ones({4, 4})), binary_cross_entropy_with_logits(x, ones({4, 4}))})
    EXPECT_EQ(y.dtype(), kFloat32);
  EXPECT_EQ(relu(x).dtype(), kBFloat16);
  EXPECT_EQ((x + ones({4})).dtype(), kFloat32);
  EXPECT_EQ(cat(std::vector{x, ones({4, 4})}).dtype(), kFloat32);
  EXPECT_EQ(layer_norm(x, {4}, scale, scale).dtype(), kBFloat16);  // computed in float32
  EXPECT_EQ(layer_norm(ones({4, 4}), {4}, scale, scale).dtype(), kBFloat16);
  EXPECT_EQ(group_norm(x, 2, scale, scale).dtype(), kBFloat16);
  EXPECT_EQ(batch_norm(x, zeros({4}), ones({4}), scale, scale, {.training = true}).dtype(), kBFloat16);
}

TEST(Autocast, LeavesFloat64AndIntegersAsTheyAre) {
  const Tensor x = ones({2, 2}, {.dtype = kFloat64});
  const Autocast region(kFloat16);
  EXPECT_EQ(mm(x, x).dtype(), kFloat64);
  EXPECT_EQ(exp(x).dtype(), kFloat64);
  EXPECT_EQ(sum(tensor({1, 2})).dtype(), kInt64);
}

TEST(Autocast, GivesParametersGradientsInTheirOwnDType) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"}) {
    const Tensor w = leaf(randn({3, 4}).to(device)), b = leaf(randn({3}).to(device));
    const Tensor x = randn({2, 4}).to(device);
    const auto loss_of = [&](const Tensor& weight, const Tensor& bias, const Tensor& input) {
      return sum(linear(input, weight, bias).to(kFloat32) * 2.0);
    };
    loss_of(w.to(kBFloat16), b.to(kBFloat16), x.to(kBFloat16)).backward();
    const std::vector<double> expected = values(w.grad());
    Tensor w2 = leaf(w), b2 = leaf(b);
    {
      Tensor loss;
      {
        const Autocast region(kBFloat16);
        loss = loss_of(w2, b2, x);
      }
      loss.backward();
    }
    EXPECT_EQ(w2.grad().dtype(), kFloat32);
    EXPECT_EQ(b2.grad().dtype(), kFloat32);
    EXPECT_EQ(values(w2.grad().to(kBFloat16)), expected);  // not rounded to 16 bits
  }
}

// linear() gives each gradient in the dtype of its input, from sums that are not rounded to 16 bits.
TEST(Autocast, WritesGradientsOfLayersInTheDTypesOfTheirInputs) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"})
    for (const DType dtype : {kBFloat16, kFloat16})
      for (const DType of_x : {kFloat32, dtype})
        for (const Shape& sizes : {Shape{5, 4}, {2, 3, 4}, {40, 64}}) {
          const std::int64_t in = sizes.back(), out = 7;
          const Tensor w = leaf(randn({out, in}).to(device)), b = leaf(randn({out}).to(device));
          const Tensor x = leaf(randn(sizes).to(device).to(of_x));
          Tensor y;
          {
            const Autocast region(dtype);
            y = linear(x, w, b);
          }
          const Tensor pull = randn(y.sizes()).to(device).to(dtype);
          y.backward(pull);
          const Tensor g = pull.to(kFloat32).reshape({-1, out}),
                       rows = x.detach().to(dtype).to(kFloat32).reshape({-1, in});
          const auto expect_near = [&](const Tensor& got, const Tensor& expected, double tolerance) {
            EXPECT_LE(max(abs(got.to(kFloat32) - expected) - tolerance * abs(expected)).item<double>(), 1e-4) << dtype;
          };
          EXPECT_EQ(x.grad().dtype(), of_x);
          EXPECT_EQ(w.grad().dtype(), kFloat32);
          EXPECT_EQ(b.grad().dtype(), kFloat32);
          expect_near(w.grad(), mm(g.t(), rows), 1e-5);
          expect_near(b.grad(), sum(g, {0}), 1e-5);
          expect_near(x.grad().reshape({-1, in}), mm(g, w.detach().to(dtype).to(kFloat32)),
                      of_x == kFloat32 ? 1e-5 : 1. / 128);
        }
}

TEST(Autocast, DifferentiatesLayersTwice) {
  const Tensor w = leaf(randn({3, 4})), x = leaf(randn({2, 4}));
  const auto second = [&](const Tensor& y) {
    const std::vector<Tensor> g =
        gradients(std::vector{sum(square(y.to(kFloat32)))}, std::vector{x, w}, {}, {.create_graph = true});
    return gradients(std::vector{sum(square(g[0])) + sum(square(g[1]))}, std::vector{x, w});
  };
  const std::vector<Tensor> expected = second(linear(x.to(kBFloat16), w.to(kBFloat16)));
  Tensor y;
  {
    const Autocast region(kBFloat16);
    y = linear(x, w);
  }
  const std::vector<Tensor> got = second(y);
  for (std::size_t i = 0; i < 2; ++i) {  // those of the casts are rounded to 16 bits, twice
    EXPECT_EQ(got[i].dtype(), kFloat32);
    EXPECT_LE(max(abs(got[i] - expected[i])).item<double>(), 0.02 * max(abs(expected[i])).item<double>()) << i;
  }
}

// A float32 tensor plus a 16-bit one, in any order, broadcast: the sum of the converted ones, without a conversion.
TEST(MixedAdd, IsTheSumOfTheConverted) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"})
    for (const DType dtype : {kBFloat16, kFloat16})
      for (const Shape& of_narrow : {Shape{3, 5}, {5}, {3, 1}, {2, 3, 5}, {}}) {
        const Tensor wide = leaf(randn({3, 5}).to(device)), narrow = leaf(randn(of_narrow).to(device).to(dtype));
        for (const bool first : {false, true})
          for (const double alpha : {1.0, -2.0}) {
            const auto of = [&](const Tensor& b) { return first ? add(wide, b, alpha) : add(b, wide, alpha); };
            const Tensor got = of(narrow), expected = of(narrow.to(kFloat32));
            EXPECT_EQ(got.dtype(), kFloat32);
            EXPECT_EQ(values(got), values(expected));
            const Tensor pull = randn(got.sizes()).to(device);
            const auto gradients_of = [&](const Tensor& y) {
              return gradients(std::vector{y}, std::vector{wide, narrow}, std::vector{pull});
            };
            const std::vector<Tensor> g = gradients_of(got), h = gradients_of(expected);
            for (std::size_t i = 0; i < 2; ++i) {
              EXPECT_EQ(g[i].dtype(), h[i].dtype());
              EXPECT_EQ(values(g[i]), values(h[i]));
            }
          }
      }
}

TEST(MixedAdd, KeepsPromotionOfNumbers) {
  const Tensor narrow = ones({3}, {.dtype = kBFloat16});
  EXPECT_EQ((narrow + full({}, 2.0)).dtype(), kBFloat16);
  EXPECT_EQ((narrow + full({1}, 2.0)).dtype(), kFloat32);
  EXPECT_EQ((full({}, 1.0, {.dtype = kBFloat16}) + ones({3})).dtype(), kFloat32);
}

// Logits of 16 bits: the loss is float32, and the gradient of the logits is rounded once.
TEST(Autocast, TakesLossesOf16BitLogitsInFloat32) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"})
    for (const DType dtype : {kBFloat16, kFloat16})
      for (const std::int64_t classes : {3, 40, 1100})
        for (const double smoothing : {0.0, 0.1})
          for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
            const Tensor x = leaf((randn({5, classes}) * 4.0).to(device).to(dtype));
            const Tensor target = randint(-1, classes, {5}).to(device);
            const CrossEntropyOptions options = {
                .ignore_index = -1, .reduction = reduction, .label_smoothing = smoothing};
            const Tensor expected = cross_entropy(x.to(kFloat32), target, options);
            Tensor got;
            {
              const Autocast region(dtype);
              got = cross_entropy(x, target, options);
            }
            ASSERT_EQ(got.dtype(), kFloat32);
            EXPECT_LE(max(abs(got - expected)).item<double>(), 1e-4);
            const Tensor pull = full(got.sizes(), 3.0, {.device = x.device()});
            const auto of = [&](const Tensor& loss, bool twice) {
              return gradients(std::vector{loss}, std::vector{x}, std::vector{pull},
                               {.retain_graph = true, .create_graph = twice})[0];
            };
            for (const bool twice : {false, true}) {
              const Tensor g = of(got, twice), h = of(expected, twice);
              ASSERT_EQ(g.dtype(), dtype);
              EXPECT_LE(max(abs(g - h) - abs(h) / (dtype == kBFloat16 ? 128 : 1024)).item<double>(), 1e-6);
            }
          }
}

TEST(Autocast, TakesTheWeightsOfClassesInFloat32) {
  const Tensor x = randn({5, 3}), weight = full({3}, 0.75), target = randint(0, 3, {5});
  const Tensor narrow = x.to(kBFloat16);
  const Autocast region(kBFloat16);
  for (const Tensor& given : {weight, weight.to(kBFloat16)}) {
    EXPECT_EQ(cross_entropy(narrow, target, {.weight = given}).item<float>(),
              cross_entropy(narrow.to(kFloat32), target, {.weight = weight}).item<float>());
    EXPECT_EQ(nll_loss(narrow, target, {.weight = given}).item<float>(),
              nll_loss(narrow.to(kFloat32), target, {.weight = weight}).item<float>());
  }
}

// A probability of almost 1: its gradient is small, not 0.
TEST(Autocast, KeepsSmallGradientsOfCertainLogits) {
  const TestDevices devices(1);
  for (const char* device : {"cpu", "cuda:0"}) {
    const Tensor x = leaf(tensor({{9.f, 0.f, 0.f}}).to(device).to(kBFloat16));
    Tensor loss;
    {
      const Autocast region(kBFloat16);
      loss = cross_entropy(x, tensor({0}).to(device));
    }
    loss.backward();
    const double p = std::exp(9) / (std::exp(9) + 2);
    EXPECT_NEAR(values(x.grad())[0], p - 1, (1 - p) / 128);
  }
}

TEST(Autocast, CastsAParameterOnceForARegion) {
  const Tensor w = leaf(randn({3, 3})), x = randn({3, 3}).to(kBFloat16);
  const Autocast region(kBFloat16);
  const auto product = [&] { return mm(x, w); };
  const Tensor first = product();
  const auto before = memory_stats(Device("cpu")).allocations;
  const Tensor second = product();
  EXPECT_EQ(memory_stats(Device("cpu")).allocations, before + 1);  // the result
}

TEST(Autocast, CastsAgainWhatAStepChanged) {
  Tensor w = leaf(ones({1, 1}));
  const Tensor x = ones({1, 1});
  const Autocast region(kBFloat16);
  EXPECT_EQ(mm(x, w).item<float>(), 1);
  {
    const NoGrad guard;
    w.mul_(3.0);
  }
  EXPECT_EQ(mm(x, w).item<float>(), 3);
}

TEST(Autocast, LetsSeveralBackwardsUseOneCast) {
  const Tensor w = leaf(ones({1, 1})), x = ones({1, 1});
  const Autocast region(kBFloat16);
  sum(mm(x, w)).backward();
  sum(mm(x, w)).backward();
  EXPECT_EQ(w.grad().item<float>(), 2);
}

TEST(Autocast, RecordsAParameterThatWasCastUnrecorded) {
  const Tensor w = leaf(ones({1, 1})), x = ones({1, 1});
  const Autocast region(kBFloat16);
  {
    const NoGrad guard;
    EXPECT_FALSE(mm(x, w).requires_grad());
  }
  EXPECT_TRUE(mm(x, w).requires_grad());
}

TEST(Autocast, IsOfOneThread) {
  const Autocast region(kBFloat16);
  std::thread([] { EXPECT_EQ(autocast_dtype(), std::nullopt); }).join();
}

TEST(Autocast, IsLeftAndEnteredAgain) {
  const Tensor x = ones({1, 1});
  const Autocast region(kBFloat16);
  {
    const NoAutocast outside;
    EXPECT_EQ(mm(x, x).dtype(), kFloat32);
    const Autocast inner(kFloat16);
    EXPECT_EQ(mm(x, x).dtype(), kFloat16);
  }
  EXPECT_EQ(mm(x, x).dtype(), kBFloat16);
}

TEST(Autocast, GoesOnAfterAnInnerRegion) {
  const Autocast region(kBFloat16);
  for (const DType dtype : {kFloat16, kBFloat16}) {
    { const Autocast inner(dtype); }
    EXPECT_EQ(autocast_dtype(), kBFloat16);
  }
}

TEST(Autocast, DoesNotReachBackward) {
  const Tensor x = leaf(ones({1, 1}));
  std::optional<DType> seen = kFloat64;
  const Tensor y = custom_gradient("probe", x * 2.0, std::vector{x}, [&](const Tensor& g) {
    seen = autocast_dtype();
    return std::vector{g};
  });
  const Autocast region(kBFloat16);
  sum(y).backward();
  EXPECT_EQ(seen, std::nullopt);
  EXPECT_EQ(autocast_dtype(), kBFloat16);
}

TEST(Autocast, RefusesOtherTypes) {
  EXPECT_EQ(testing::thrown<DTypeError>([] { const Autocast region(kFloat32); }),
            "[Autocast] expected bfloat16 or float16, got float32");
}

}  // namespace
}  // namespace lockstep
