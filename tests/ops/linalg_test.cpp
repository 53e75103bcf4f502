#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <tuple>

#include <lockstep/ops/activation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/runtime/trace.h>

#include "ops/checks.h"
#include "ops/linear.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;
using Inputs = std::vector<Tensor>;

// The definition: sums of products over the inner dimension.
Tensor by_definition(const Tensor& a, const Tensor& b) { return sum(a.unsqueeze(-1) * b.unsqueeze(-3), {-2}); }

double distance(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return max(abs(a - b)).item<double>();
}

// Each device has a thread, and so has each part of a product.
TEST(Matmul, IsRightOnSeveralThreadsAtOnce) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (const std::int64_t columns : {50, 100, 150, 200})
    threads.emplace_back([&wrong, a = randn({16, 150}), b = randn({150, columns})] {
      const std::vector<double> right = values(mm(a, b));
      for (int i = 0; i < 500; ++i) wrong += values(mm(a, b)) != right;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Matmul, BatchesBroadcast) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{4, 5}, {5, 3}},          {{2, 4, 5}, {2, 5, 3}},       {{2, 4, 5}, {5, 3}},       {{4, 5}, {2, 5, 3}},
      {{3, 1, 4, 5}, {2, 5, 3}}, {{3, 1, 4, 5}, {1, 2, 5, 3}}, {{2, 3, 4, 5}, {3, 5, 1}}, {{1, 1, 5}, {7, 5, 1}},
      {{2, 3, 0, 5}, {5, 3}},    {{0, 4, 5}, {0, 5, 3}},       {{2, 4, 0}, {2, 0, 3}},
  };
  for (const auto& [left, right] : shapes) {
    const Tensor a = random_doubles(left), b = random_doubles(right);
    if (matmul(a, b).numel() == 0)
      EXPECT_EQ(matmul(a, b).sizes(), by_definition(a, b).sizes());
    else
      EXPECT_LT(distance(matmul(a, b), by_definition(a, b)), 1e-13) << left << right;
  }
}

TEST(Matmul, VectorsAreRowsAndColumns) {
  const Tensor a = random_doubles({5}), m = random_doubles({5, 3}), batch = random_doubles({2, 5, 3});
  EXPECT_EQ(matmul(a, a).dim(), 0);
  EXPECT_LT(distance(matmul(a, m), by_definition(a.unsqueeze(0), m).squeeze(0)), 1e-13);
  EXPECT_LT(distance(matmul(m.t(), a), by_definition(m.t(), a.unsqueeze(1)).squeeze(1)), 1e-13);
  EXPECT_EQ(matmul(a, batch).sizes(), (Shape{2, 3}));
  EXPECT_EQ(matmul(batch.transpose(1, 2), a).sizes(), (Shape{2, 3}));
  EXPECT_DOUBLE_EQ(dot(tensor({1.0, 2.0}), tensor({3.0, 4.0})).item<double>(), 11);
  expect_values(outer(doubles({1, 2}, {2}), doubles({3, 4}, {2})), {3, 4, 6, 8});
}

TEST(Matmul, TakesAnyLayout) {
  const Tensor a = random_doubles({2, 3, 4, 6}), b = random_doubles({2, 3, 6, 5});
  const Tensor expected = by_definition(a, b);
  const auto heads_last = [](const Tensor& x) { return x.permute({0, 2, 1, 3}).contiguous().permute({0, 2, 1, 3}); };
  const auto transposed = [](const Tensor& x) { return x.transpose(2, 3).contiguous().transpose(2, 3); };
  const auto gaps = [](const Tensor& x) {
    const Tensor room = zeros({x.size(0), x.size(1), x.size(2), 2 * x.size(3)}, {.dtype = kFloat64});
    return room.slice(3, 0, 2 * x.size(3), 2).copy_(x);
  };
  for (const Tensor& left : {a, heads_last(a), transposed(a), gaps(a)})
    for (const Tensor& right : {b, heads_last(b), transposed(b), gaps(b)})
      EXPECT_LT(distance(matmul(left, right), expected), 1e-13);
}

TEST(Matmul, ManyOuterBatches) {
  const Tensor a = random_doubles({40, 3, 2, 4}).transpose(0, 1), b = random_doubles({40, 4, 3});
  EXPECT_LT(distance(matmul(a, b), by_definition(a, b)), 1e-13);
}

TEST(Matmul, ManyOuterBatchesOverNothingAreZero) {
  const Tensor product = matmul(zeros({20, 1, 3, 0}), zeros({20, 4, 0, 5}));
  EXPECT_EQ(product.sizes(), (Shape{20, 4, 3, 5}));
  EXPECT_EQ(max(abs(product)).item<float>(), 0);
}

TEST(Matmul, OnSimulatedDevices) {
  const TestDevices devices(1);
  const Tensor a = random_doubles({3, 1, 4, 5}), b = random_doubles({2, 5, 3});
  EXPECT_LT(distance(matmul(a.cuda(), b.cuda()).cpu(), by_definition(a, b)), 1e-13);
}

TEST(Matmul, Errors) {
  const Tensor a = zeros({2, 3});
  EXPECT_EQ(message_of<ShapeError>([&] { matmul(a, a); }),
            "[matmul] expected [..., m, k] and [..., k, n] or vectors [k], got [2, 3] and [2, 3]");
  EXPECT_THROW(matmul(a, tensor(1.0)), ShapeError);
  EXPECT_THROW(matmul(zeros({2, 3, 4}), zeros({3, 4, 5})), ShapeError);
  EXPECT_THROW(matmul(a, zeros({3, 2}, {.dtype = kFloat64})), DTypeError);
  EXPECT_THROW(bmm(zeros({2, 3, 4}), zeros({1, 4, 5})), ShapeError);
  EXPECT_THROW(dot(zeros({2}), zeros({3})), ShapeError);
  EXPECT_THROW(outer(a, a), ShapeError);
  EXPECT_THROW(addmm(zeros({3}), a, zeros({3, 4})), ShapeError);
  EXPECT_THROW(linear(a, zeros({4, 2})), ShapeError);
}

TEST(Addmm, ScalesBothParts) {
  const Tensor a = random_doubles({2, 3}), b = random_doubles({3, 4}), c = random_doubles({2, 1});
  EXPECT_LT(distance(addmm(c, a, b, {.beta = 0.5, .alpha = 2}), c * 0.5 + mm(a, b) * 2), 1e-14);
  EXPECT_LT(distance(addmm(full({4}, kNan, {.dtype = kFloat64}), a, b, {.beta = 0}), mm(a, b)), 1e-14);
}

TEST(Linalg, Gradients) {
  const Tensor v = random_doubles({4}), m = random_doubles({4, 3}), batch = random_doubles({2, 1, 3, 4});
  const auto product = [](const Inputs& in) { return matmul(in[0], in[1]); };
  expect_gradients(product, {v, v});
  expect_gradients(product, {v, m});
  expect_gradients(product, {m.t(), v});
  expect_gradients(product, {batch, m});
  expect_gradients(product, {batch, random_doubles({2, 4, 2})});
  expect_gradients(product, {m, batch});
  expect_gradients([](const Inputs& in) { return outer(in[0], in[1]); }, {v, v});
  expect_gradients([](const Inputs& in) { return addmm(in[0], in[1], in[2], {.beta = 0.5, .alpha = 2}); },
                   {random_doubles({3}), random_doubles({2, 4}), m});
  expect_gradients([](const Inputs& in) { return linear(in[0], in[1], in[2]); },
                   {random_doubles({2, 2, 4}), random_doubles({3, 4}), random_doubles({3})});
}

TEST(Linalg, GradientsOfALinearLayerWithAnActivation) {
  for (const Activation activation : {Activation::relu, Activation::gelu_tanh})
    expect_gradients([&](const Inputs& in) { return linear(in[0], in[1], in[2], activation); },
                     {random_doubles({2, 2, 4}), random_doubles({3, 4}), random_doubles({3})});
}

class LinearWithActivation : public ::testing::TestWithParam<std::tuple<DType, Activation>> {
 protected:
  static Tensor apart(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor sums = linear(x, weight, bias);
    return std::get<Activation>(GetParam()) == Activation::relu ? relu(sums) : gelu(sums, GeluForm::tanh);
  }
  static Tensor at_once(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return linear(x, weight, bias, std::get<Activation>(GetParam()));
  }
  static TensorOptions like() { return {.dtype = std::get<DType>(GetParam())}; }
};

TEST_P(LinearWithActivation, IsBothOperations) {
  const TestDevices devices(1);
  // Results exceed 4, where the spacing of bfloat16 is 1/32; one rounding more or less can change a result by that.
  const double tolerance = like().dtype == kFloat64    ? 1e-13
                           : like().dtype == kFloat32  ? 1e-5
                           : like().dtype == kBFloat16 ? 1.0 / 16
                                                       : 2e-2;
  const auto [rows, in, out] = std::array{70, 50, 60};
  for (const Shape& sizes : {Shape{2, in}, Shape{3, rows, in}})
    for (const Device device : {Device(), Device::cuda(0)}) {
      const Tensor x = randn(sizes, like()).to(device), bias = randn({out}, like()).to(device);
      const Tensor weight = (randn({out, in}, like()) * 0.2).to(device);
      for (const Tensor& b : {bias, Tensor()})
        EXPECT_LT(distance(at_once(x, weight, b), apart(x, weight, b)), tolerance) << sizes << device;
    }
}

TEST_P(LinearWithActivation, KeepsNanInTraining) {
  const TestDevices devices(1);
  const Tensor x = full({2, 3}, kNan, like()).cuda(), weight = ones({4, 3}, like()).cuda().requires_grad_();
  for (const double value : values(at_once(x, weight, {}))) EXPECT_TRUE(std::isnan(value));
}

TEST_P(LinearWithActivation, IsOneOperationWhereNothingIsRecorded) {
  const SimulatedDevices devices({.count = 1});
  const Tensor x = randn({2, 3}, like()).cuda(), weight = randn({4, 3}, like()).cuda().requires_grad_();
  const char* const activation = std::get<Activation>(GetParam()) == Activation::relu ? "relu" : "gelu";
  const auto activations = [&] {
    const Trace trace;
    at_once(x, weight, {});
    synchronize(Device::cuda(0));
    return std::ranges::count(trace.events(), activation, &TraceEvent::name);
  };
  EXPECT_EQ(activations(), 1);
  const NoGrad guard;
  EXPECT_EQ(activations(), 0);
}
INSTANTIATE_TEST_SUITE_P(DTypes, LinearWithActivation,
                         ::testing::Combine(::testing::Values(kFloat16, kBFloat16, kFloat32, kFloat64),
                                            ::testing::Values(Activation::relu, Activation::gelu_tanh)));

}  // namespace
}  // namespace lockstep
