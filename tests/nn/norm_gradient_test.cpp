// The gradients of layer_norm and rms_norm against their definition, at lengths that use different kernels.
#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/functional.h>

#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

struct Grads {
  Tensor x, weight, bias;
};

// The gradients from y's definition, by operations in float64 on the CPU.
Grads by_definition(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& pull, bool centered) {
  const auto leaf = [](const Tensor& t) { return t.detach().to(Device(), kFloat64).clone().requires_grad_(); };
  Grads in = {leaf(x), leaf(weight), leaf(bias)};
  const Tensor moved = centered ? in.x - mean(in.x, {1}, true) : in.x;
  Tensor y = moved / sqrt(mean(square(moved), {1}, true) + 1e-5) * in.weight;
  if (centered) y = y + in.bias;
  sum(y * pull.to(Device(), kFloat64)).backward();
  return {in.x.grad(), in.weight.grad(), centered ? in.bias.grad() : Tensor()};
}

void expect_near_to(const Tensor& got, const Tensor& expected, double relative) {
  const double scale = max(abs(expected)).item<double>();
  EXPECT_LT(max(abs(got.detach().to(Device(), kFloat64) - expected)).item<double>(), relative * scale);
}

double precision(DType dtype) {
  if (dtype == kFloat64) return 1e-13;
  return dtype == kFloat32 ? 2e-5 : dtype == kFloat16 ? 2e-3 : 1.6e-2;
}

class NormGradients : public ::testing::TestWithParam<DType> {};

// Rows of one pack per thread and of several, for a warp and for a block; not divisible into packs; too long for
// registers.
TEST_P(NormGradients, AreThoseOfTheDefinition) {
  manual_seed(5);
  const TestDevices devices(1);
  const DType dtype = GetParam();
  for (const char* place : {"cpu", "cuda:0"})
    for (const auto& [rows, length] :
         {std::pair{37, 8}, {5, 24}, {70, 264}, {9, 1000}, {3, 77}, {5, 1288}, {3, 2304}, {2, 8200}, {2, 1031}})
      for (const bool centered : {true, false}) {
        SCOPED_TRACE(::testing::Message() << place << ' ' << rows << " x " << length << " centered " << centered);
        const auto leaf = [&](const Shape& sizes) { return randn(sizes).to(dtype).to(Device(place)).requires_grad_(); };
        Tensor x = leaf({rows, length}), weight = leaf({length}), bias = leaf({length});
        const Tensor pull = randn({rows, length}).to(dtype).to(Device(place));
        const Tensor y = centered ? nn::layer_norm(x, {length}, weight, bias) : nn::rms_norm(x, {length}, weight, 1e-5);
        sum(y * pull).backward();
        const Grads expected = by_definition(x, weight, bias, pull, centered);
        expect_near_to(x.grad(), expected.x, precision(dtype));
        expect_near_to(weight.grad(), expected.weight, precision(dtype));
        if (centered) expect_near_to(bias.grad(), expected.bias, precision(dtype));
      }
}

// Only some of the three gradients are needed, and x's address is not aligned to a pack.
TEST_P(NormGradients, OfSomeInputsAndOddAddresses) {
  manual_seed(6);
  const TestDevices devices(1);
  const DType dtype = GetParam();
  for (const char* place : {"cpu", "cuda:0"})
    for (const int asked : {1, 2, 4, 6}) {
      SCOPED_TRACE(::testing::Message() << place << " asked " << asked);
      const auto make = [&](const Shape& sizes) { return randn(sizes).to(dtype).to(Device(place)); };
      Tensor x = make({161}).narrow(0, 1, 160).view({10, 16}), weight = make({16}), bias = make({16});
      for (const auto& [bit, tensor] : {std::pair{1, &x}, {2, &weight}, {4, &bias}})
        if (asked & bit) tensor->requires_grad_();
      const Tensor pull = make({10, 16});
      sum(nn::layer_norm(x, {16}, weight, bias) * pull).backward();
      const Grads expected = by_definition(x, weight, bias, pull, true);
      if (asked & 1) expect_near_to(x.grad(), expected.x, precision(dtype));
      if (asked & 2) expect_near_to(weight.grad(), expected.weight, precision(dtype));
      if (asked & 4) expect_near_to(bias.grad(), expected.bias, precision(dtype));
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, NormGradients, ::testing::Values(kFloat16, kBFloat16, kFloat32, kFloat64));

}  // namespace
}  // namespace lockstep
