// Operations from outside of the library: values by their definition, gradients, layouts, and errors.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <lockstep/autograd/gradcheck.h>
#include <lockstep/extend/kernels.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "extend/kernels.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using testing::swiglu;

std::vector<double> values(const Tensor& x) { return x.cpu().to(kFloat64).contiguous().to_vector<double>(); }

/// Compares elements within the rounding of their dtype.
void expect_near(const Tensor& got, const std::vector<double>& expected) {
  const double relative = got.dtype() == kFloat64   ? 1e-10
                          : got.dtype() == kFloat32 ? 1e-5
                          : got.dtype() == kFloat16 ? std::ldexp(1, -10)
                                                    : std::ldexp(1, -7);
  const std::vector<double> all = values(got);
  ASSERT_EQ(all.size(), expected.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_NEAR(all[i], expected[i], relative * (std::abs(expected[i]) + 1e-2)) << "element " << i;
}

std::vector<double> swiglu_by_definition(const Tensor& x, const Tensor& gate, double beta) {
  std::vector<double> all = values(x);
  const std::vector<double> gates = values(gate.expand(x.sizes()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] / (1 + std::exp(-beta * all[i])) * gates[i];
  return all;
}

class Extend : public ::testing::TestWithParam<const char*> {
 protected:
  TensorOptions on_device(DType dtype = kFloat32) const { return {.dtype = dtype, .device = Device(GetParam())}; }

  const TestDevices devices_{2};
};
INSTANTIATE_TEST_SUITE_P(, Extend, ::testing::Values("cpu", "cuda:0"), [](const auto& tested) {
  return std::string(tested.param).substr(0, 3) == "cpu" ? "Cpu" : "Gpu";
});

TEST_P(Extend, ElementwiseIsItsDefinitionInEveryDtype) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = randn({33, 70}, on_device(dtype)), gate = randn({33, 70}, on_device(dtype));
    const Tensor y = swiglu(x, gate, full({}, 1.5, on_device(dtype)));
    EXPECT_EQ(y.dtype(), dtype);
    expect_near(y, swiglu_by_definition(x, gate, 1.5));
  }
}

TEST_P(Extend, ElementwiseTakesAnyLayoutAndBroadcasts) {
  const Tensor x = randn({40, 30}, on_device()).t(), gate = randn({40}, on_device());
  const Tensor y = swiglu(x, gate, full({1, 1}, 0.5, on_device()));
  EXPECT_EQ(y.sizes(), (Shape{30, 40}));
  expect_near(y, swiglu_by_definition(x, gate, 0.5));
}

TEST_P(Extend, ElementwisePromotes) {
  const Tensor x = randn({5}, on_device(kFloat16)), one = ones({1}, on_device(kFloat64));
  const Tensor y = swiglu(x, ones({5}, on_device()), one);
  EXPECT_EQ(y.dtype(), kFloat64);
  expect_near(y, swiglu_by_definition(x, ones({5}, on_device()), 1));
  EXPECT_EQ(swiglu(x, ones({5}, on_device()), one.view({})).dtype(), kFloat32);  // 0-dim: promotes as a number does
}

TEST_P(Extend, ElementwiseOfNothingIsNothing) {
  Tensor x = randn({0, 7}, on_device());
  x.requires_grad_();
  const Tensor y = swiglu(x, x, ones({}, on_device()));
  EXPECT_EQ(y.sizes(), (Shape{0, 7}));
  sum(y).backward();
  EXPECT_EQ(x.grad().sizes(), (Shape{0, 7}));
}

TEST_P(Extend, GradientsAreThoseOfTheFunction) {
  const TensorOptions exact = on_device(kFloat64);
  const auto function = [](const std::vector<Tensor>& in) { return swiglu(in[0], in[1], in[2]); };
  const std::vector<Tensor> inputs = {randn({4, 3}, exact).t(), randn({4}, exact), randn({3, 1}, exact)};
  EXPECT_NO_THROW(gradcheck(function, inputs));
  EXPECT_NO_THROW(gradgradcheck(function, inputs));
}

TEST_P(Extend, OnlyWhatNeedsAGradientGetsOne) {
  Tensor x = randn({6}, on_device(kFloat64)), gate = randn({6}, on_device(kFloat64));
  const Tensor beta = full({}, 0.7, on_device(kFloat64));
  gate.requires_grad_();
  const Tensor y = swiglu(x, gate, beta);
  EXPECT_EQ(y.grad_fn(), "swigluBackward");
  sum(y).backward();
  EXPECT_FALSE(x.grad().defined());
  expect_near(gate.grad(), swiglu_by_definition(x, ones({6}, on_device(kFloat64)), 0.7));
}

TEST_P(Extend, SixteenBitGradientsAreRoundedOnce) {
  const Tensor exact = randn({100}, on_device(kFloat64)).to(kBFloat16);
  Tensor narrow = exact.clone(), wide = exact.to(kFloat64);
  narrow.requires_grad_();
  wide.requires_grad_();
  sum(swiglu(narrow, exact, ones({}, on_device(kBFloat16)))).backward();
  sum(swiglu(wide, exact.to(kFloat64), ones({}, on_device(kFloat64)))).backward();
  expect_near(narrow.grad(), values(wide.grad()));
}

TEST_P(Extend, AChangeOfASavedInputIsNoticed) {
  Tensor x = randn({3}, on_device());
  x.requires_grad_();
  const Tensor doubled = x * 2;
  const Tensor y = swiglu(doubled, doubled, ones({}, on_device()));
  doubled.detach().zero_();
  EXPECT_THROW(sum(y).backward(), AutogradError);
}

TEST_P(Extend, MapAndMapSeveralAreTheirDefinitions) {
  const Tensor a = randn({3, 1}, on_device()), b = randn({4}, on_device());
  const std::vector<double> expected = values(a + b);
  EXPECT_EQ(values(testing::plus(a, b)), expected);
  const auto [both, difference] = testing::sum_and_difference(a, b);
  EXPECT_EQ(values(both), expected);
  EXPECT_EQ(values(difference), values(a - b));
}

TEST_P(Extend, RowsAreTheirDefinitionAlongAnyDimension) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64})
    for (const std::int64_t dim : {0, 1, -1}) {
      const Tensor x = randn({5, 1300, 3}, on_device(dtype)), wide = x.to(kFloat64);
      const Tensor expected = wide / sqrt(mean(wide * wide, {dim}, true) + 1e-6);
      expect_near(testing::rms_norm_rows(x, dim), values(expected));
    }
}

TEST_P(Extend, RowsTakeAnyLayoutAndALengthOfTheirOwn) {
  const Tensor x = randn({50, 4}, on_device(kFloat64)).t(), y = randn({50}, on_device(kFloat64)).expand({4, 50});
  expect_near(testing::dot_rows(x, y, 2), values(sum(x * y, {1}, true).expand({4, 2})));
  EXPECT_EQ(testing::dot_rows(x, y, 0).sizes(), (Shape{4, 0}));
  EXPECT_EQ(testing::dot_rows(x.narrow(0, 0, 0), y.narrow(0, 0, 0), 3).sizes(), (Shape{0, 3}));
  const Tensor without = randn({4, 0}, on_device(kFloat64));
  EXPECT_EQ(values(testing::dot_rows(without, without, 3)), std::vector<double>(12, 0));
  EXPECT_EQ(values(testing::rms_norm_rows(full({}, 2, on_device(kFloat64)))).size(), 1u);
}

// Checks that the error is thrown before anything is enqueued, and names the operation.
template <class E, class F>
void expect_refused(const F& function, const std::string& message) {
  try {
    function();
    FAIL() << "expected an error";
  } catch (const E& error) {
    EXPECT_EQ(error.what(), message);
  }
}

TEST_P(Extend, WrongDtypesAreRefused) {
  const Tensor x = ones({2}, on_device()), whole = ones({2}, on_device(kInt64)), half = ones({2}, on_device(kFloat16));
  expect_refused<DTypeError>([&] { swiglu(x, whole, x); }, "[swiglu] expected a floating dtype, got int64");
  expect_refused<DTypeError>([&] { testing::twice(whole); }, "[twice] expected a floating dtype, got int64");
  expect_refused<DTypeError>([&] { testing::plus(x, half); },
                             "[plus] expected tensors of one dtype, got float32 and float16");
  expect_refused<DTypeError>([&] { testing::dot_rows(x, half, 1); },
                             "[dot_rows] expected tensors of one dtype, got float32 and float16");
}

TEST_P(Extend, WrongShapesAreRefused) {
  const Tensor x = ones({2, 3}, on_device()), y = ones({3, 2}, on_device());
  EXPECT_THROW(swiglu(x, y, x), ShapeError);
  EXPECT_THROW(testing::sum_and_difference(x, y), ShapeError);
  expect_refused<ShapeError>(
      [&] { testing::dot_rows(x, y, 1); },
      "[dot_rows] expected inputs with equal sizes except in dimension 1, got [2, 3] and [3, 2]");
  EXPECT_THROW(testing::dot_rows(x, x, -1), ShapeError);
  EXPECT_THROW(testing::rms_norm_rows(x, 2), ShapeError);
}

TEST_P(Extend, MixedDevicesAndUndefinedTensorsAreRefused) {
  const Tensor x = ones({2}, on_device()), elsewhere = ones({2}, {.device = Device("cuda:1")});
  EXPECT_THROW(swiglu(x, elsewhere, x), DeviceMismatch);
  EXPECT_THROW(testing::plus(x, elsewhere), DeviceMismatch);
  EXPECT_THROW(testing::dot_rows(x, elsewhere, 1), DeviceMismatch);
  EXPECT_THROW(swiglu(x, Tensor(), x), InvalidArgument);
  EXPECT_THROW(testing::twice(Tensor()), InvalidArgument);
  EXPECT_THROW(testing::rms_norm_rows(Tensor()), InvalidArgument);
}

// lockstep_kernels() does not compile this source.
TEST_P(Extend, AGpuRefusesAKernelOfTheHostAlone) {
  struct Thrice {
    float operator()(float x) const { return 3 * x; }
    double operator()(double x) const { return 3 * x; }
  };
  const Tensor x = ones({2}, on_device());
  if (Device(GetParam()).is_cpu() || are_simulated())
    EXPECT_EQ(values(extend::map("thrice", Thrice(), x)), (std::vector<double>{3, 3}));
  else
    EXPECT_THROW(extend::map("thrice", Thrice(), x), InvalidArgument);
}

struct Total {
  template <class... Number>
  auto operator()(Number... x) const {
    return (x + ...);
  }
};
struct TotalOfRows {
  template <class T, class... Rows>
  void operator()(const OneThread& team, RowOf<T> total, Rows... rows) const {
    team.fill(total, [&](auto i) { return T((ComputeType<T>(rows[i]) + ...)); });
  }
};

// More tensors than a launch can hold without allocating.
TEST(ExtendKernels, TakeManyTensors) {
  const SimulatedDevices devices({.count = 1});
  for (const char* const device : {"cpu", "cuda:0"})
    for (const DType dtype : {kFloat32, kFloat16}) {
      const Tensor x = tensor({1., 2., 3.}, {.dtype = dtype, .device = Device(device)});
      const auto many = [&](auto kernel) {
        return values(kernel(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x));
      };
      EXPECT_EQ(many([](const auto&... all) { return extend::map("total", Total(), all...); }),
                (std::vector<double>{20, 40, 60}));
      EXPECT_EQ(many([](const auto&... all) { return extend::map_rows("total", TotalOfRows(), {}, all...); }),
                (std::vector<double>{20, 40, 60}));
    }
}

}  // namespace
}  // namespace lockstep
