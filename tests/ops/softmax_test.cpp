#include "ops/checks.h"

namespace lockstep {
namespace {

using namespace testing;
using Inputs = std::vector<Tensor>;

TEST(Softmax, DoesNotOverflow) {
  expect_values(softmax(doubles({1000, 1000, -1000}, {3}), 0), {0.5, 0.5, 0});
  const auto y = values(log_softmax(doubles({0, -1000}, {2}), 0));
  EXPECT_DOUBLE_EQ(y[1], -1000);
}

TEST(Softmax, MasksWithMinusInfinity) {
  expect_values(softmax(doubles({0, -kInfinity, 0}, {3}), 0), {0.5, 0, 0.5});
  expect_values(softmax(doubles({kNan, 1}, {2}), 0), {kNan, kNan});
}

TEST(Softmax, AlongAnyDimensionOfAnyLayout) {
  const Tensor x = random_doubles({3, 4, 5});
  for (const int dim : {0, 1, 2, -1, -3}) {
    const Tensor expected = exp(x) / sum(exp(x), {dim}, true);
    const Tensor strided = x.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
    for (const Tensor& input : {x, strided}) {
      EXPECT_LT(max(abs(softmax(input, dim) - expected)).item<double>(), 1e-15);
      EXPECT_LT(max(abs(log_softmax(input, dim) - log(expected))).item<double>(), 1e-14);
    }
  }
}

TEST(Softmax, HalfTypesComputeInFloat) {
  const Tensor x = randn({4, 100});
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor narrow = x.to(dtype);
    const Tensor expected = softmax(narrow.to(kFloat32), 1).to(dtype);
    EXPECT_EQ(softmax(narrow, 1).dtype(), dtype);
    EXPECT_LT(max(abs(softmax(narrow, 1).to(kFloat32) - expected.to(kFloat32))).item<double>(), 1e-3);
  }
}

TEST(Softmax, EdgesAndErrors) {
  EXPECT_DOUBLE_EQ(softmax(tensor(3.0), 0).item<double>(), 1);
  EXPECT_EQ(softmax(zeros({2, 0}), 1).sizes(), (Shape{2, 0}));
  EXPECT_THROW(softmax(zeros({2}), 1), ShapeError);
  EXPECT_THROW(log_softmax(zeros({2}, {.dtype = kInt64}), 0), DTypeError);
}

TEST(Softmax, Gradients) {
  const Inputs x = {random_doubles({2, 3, 4}).transpose(0, 2)};
  for (const int dim : {0, 1, 2}) {
    expect_gradients([dim](const Inputs& in) { return softmax(in[0], dim); }, x);
    expect_gradients([dim](const Inputs& in) { return log_softmax(in[0], dim); }, x);
  }
}

}  // namespace
}  // namespace lockstep
