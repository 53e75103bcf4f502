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
  for (const Tensor& y :
       {softmax(x, 1), log_softmax(x, 1), logsumexp(x, {1}), exp(x), log(x), pow(x, 3), rsqrt(x), sum(x), sum(x, {0}),
        prod(x), cumsum(x, 0), norm(x), softplus(x), layer_norm(x, {4}, scale, scale), group_norm(x, 2, scale, scale),
        cross_entropy(x, classes), mse_loss(x, ones({4, 4})), binary_cross_entropy_with_logits(x, ones({4, 4}))})
    EXPECT_EQ(y.dtype(), kFloat32);
  EXPECT_EQ(relu(x).dtype(), kBFloat16);
  EXPECT_EQ((x + ones({4})).dtype(), kFloat32);
  EXPECT_EQ(cat(std::vector{x, ones({4, 4})}).dtype(), kFloat32);
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
    EXPECT_EQ(values(w2.grad()), expected);
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
