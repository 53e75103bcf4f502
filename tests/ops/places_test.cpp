// The result for an element or a row depends only on its values: not on its position, its neighbours, the number of
// elements or the number of threads. (So shards of a batch give the bits of the whole batch.)
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <lockstep/core/elementary.h>
#include <lockstep/runtime/threads.h>

#include "ops/all_ops.h"
#include "support/values.h"

namespace lockstep::places {
namespace {

using Op = std::function<Tensor(const Tensor&)>;
struct Case {
  std::string name;
  Op op;
  friend void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }
};

// Expects equal bits; NaNs are equal.
void expect_equal_numbers(const Tensor& got, const Tensor& expected) {
  const auto a = testing::values(got), b = testing::values(expected);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << "element " << i;
}

class Elements : public ::testing::TestWithParam<Case> {};

TEST_P(Elements, DependOnTheirNumbersAlone) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    const Tensor x = (rand({1200}, {.dtype = kFloat64}) * 4 + 0.01).to(dtype), whole = GetParam().op(x);
    for (const std::int64_t from : {0, 1, 3, 16, 31, 257})
      for (const std::int64_t count : {1, 2, 7, 15, 16, 17, 33, 255, 256, 300, 700})
        expect_equal_numbers(GetParam().op(x.narrow(0, from, count)), whole.narrow(0, from, count));
    const Tensor columns = x.view({40, 30}).t();
    expect_equal_numbers(GetParam().op(columns), whole.view({40, 30}).t());  // strided
    expect_equal_numbers(GetParam().op(x.narrow(0, 5, 1).expand({50})),
                         whole.narrow(0, 5, 1).expand({50}));  // broadcast
  }
}

// The gradient of x, if the gradient of f(x) is x.
Op gradient_of(const Op& f) {
  return [f](const Tensor& x) {
    const Tensor leaf = x.detach().requires_grad_();
    return gradients({f(leaf)}, {leaf}, std::vector<Tensor>{x})[0];
  };
}
Tensor mse(const Tensor& x) { return mse_loss(x, full_like(x, 2), {.reduction = Reduction::none}); }
Tensor l1(const Tensor& x) { return l1_loss(x, full_like(x, 2), {.reduction = Reduction::none}); }

const std::vector<Case> kElements = {
    {"exp", [](const Tensor& x) { return exp(x); }},
    {"expm1", [](const Tensor& x) { return expm1(x); }},
    {"log", [](const Tensor& x) { return log(x); }},
    {"log1p", [](const Tensor& x) { return log1p(x); }},
    {"tanh", [](const Tensor& x) { return tanh(x); }},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
    {"erf", [](const Tensor& x) { return erf(x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"gelu_tanh", [](const Tensor& x) { return gelu(x, GeluForm::tanh); }},
    {"silu", [](const Tensor& x) { return silu(x); }},
    {"mish", [](const Tensor& x) { return mish(x); }},
    {"softplus", [](const Tensor& x) { return softplus(x); }},
    {"sin", [](const Tensor& x) { return sin(x); }},
    {"pow", [](const Tensor& x) { return pow(x, 1.7); }},
    {"arithmetic", [](const Tensor& x) { return x * x + x / 3 - 1 / x; }},
    {"add_scaled", [](const Tensor& x) { return x.clone().add_(x, 0.3); }},
    {"relu", [](const Tensor& x) { return relu(x - 1); }},
    {"relu_gradient", gradient_of([](const Tensor& x) { return relu(x - 1); })},
    {"mse", mse},
    {"mse_gradient", gradient_of(mse)},
    {"l1", l1},
    {"l1_gradient", gradient_of(l1)},
};
INSTANTIATE_TEST_SUITE_P(Places, Elements, ::testing::ValuesIn(kElements),
                         [](const auto& of) { return of.param.name; });

// The bits of floats, computed one by one by code that has neither vectors nor fused multiply-adds.
void expect_bits(const Tensor& got, const std::function<float(float)>& of_one, const std::vector<float>& x) {
  const std::vector<float> values = got.to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(values[i], of_one(x[i])) << "of " << x[i];
}

TEST(Bits, OfArithmeticAreThoseOfOneRoundingAfterTheOther) {
  const Tensor x = randn({10000});
  const std::vector<float> numbers = x.to_vector<float>();
  expect_bits(
      addcmul(x, x, x, 1),
      [](float v) {
        const volatile float square = v * v;
        return v + square;
      },
      numbers);
  expect_bits(
      x.clone().add_(x, 0.3f),
      [](float v) {
        const volatile float scaled = v * 0.3f;
        return v + scaled;
      },
      numbers);
}

// The scalar functions are compiled here, for the least processor.
TEST(Bits, OfExpAndTanhAreTheSameInEveryInstructionSet) {
  const Tensor x = randn({10000}) * 3;
  expect_bits(
      exp(x), [](float v) { return elementary::exp(v); }, x.to_vector<float>());
  expect_bits(
      tanh(x), [](float v) { return elementary::tanh(v); }, x.to_vector<float>());
}

class RowsOfABatch : public ::testing::TestWithParam<Case> {};

TEST_P(RowsOfABatch, DependOnTheirNumbersAlone) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16})
    for (const std::int64_t length : {1, 10, 31, 33, 100, 1000, 5000}) {
      const Tensor x = randn({12, length}, {.dtype = kFloat64}).to(dtype), whole = GetParam().op(x);
      for (const std::int64_t from : {0, 1, 5})
        for (const std::int64_t count : {1, 2, 7})
          expect_equal_numbers(GetParam().op(x.narrow(0, from, count)), whole.narrow(0, from, count));
    }
}

const std::vector<Case> kRows = {
    {"softmax", [](const Tensor& x) { return softmax(x, -1); }},
    {"log_softmax", [](const Tensor& x) { return log_softmax(x, -1); }},
    {"logsumexp", [](const Tensor& x) { return logsumexp(x, {-1}); }},
    {"layer_norm",
     [](const Tensor& x) {
       const Tensor row = arange(double(x.sizes()[1])).to(x.dtype()) / 100;
       return layer_norm(x, {x.sizes()[1]}, row, row);
     }},
    {"sum", [](const Tensor& x) { return sum(x, {1}); }},
    {"max", [](const Tensor& x) { return max(x, 1).values; }},
};
INSTANTIATE_TEST_SUITE_P(Places, RowsOfABatch, ::testing::ValuesIn(kRows),
                         [](const auto& of) { return of.param.name; });

TEST(Places, ThreadsChangeNoBit) {
  struct Restore {
    int threads = num_threads();
    ~Restore() { set_num_threads(threads); }
  } restore;
  const Tensor x = randn({300, 1111}), weight = rand({1111}), bias = rand({1111});
  const auto all = [&] {
    Tensor leaf = x.clone();
    leaf.requires_grad_(true);
    Tensor w = weight.clone(), b = bias.clone();
    w.requires_grad_(true);
    b.requires_grad_(true);
    const Tensor y = gelu(layer_norm(leaf, {1111}, w, b));
    (softmax(y, 1) * y).sum().backward();
    return std::vector<Tensor>{y, leaf.grad(), w.grad(), b.grad(), x.sum(), x.sum(0), x.t().contiguous()};
  };
  set_num_threads(1);
  const std::vector<Tensor> one = all();
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    const std::vector<Tensor> several = all();
    for (std::size_t i = 0; i < one.size(); ++i) expect_equal_numbers(several[i], one[i]);
  }
}

}  // namespace
}  // namespace lockstep::places
