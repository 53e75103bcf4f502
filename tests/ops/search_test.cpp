// Binary search, and histograms: values are PyTorch 2.15's.
#include <lockstep/ops/search.h>

#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

TEST(SearchSorted, BeforeAndBehindEqualOnes) {
  const Tensor sequence = doubles({1, 3, 3, 5}, {4});
  const Tensor wanted = doubles({0, 1, 3, 4, 5, 6, kNan, kInfinity}, {8});
  expect_values(searchsorted(sequence, wanted), {0, 0, 1, 3, 3, 4, 4, 4});
  expect_values(searchsorted(sequence, wanted, {.right = true}), {0, 1, 3, 3, 4, 4, 4, 4});
  const Tensor with_nan = doubles({1, 3, 3, 5, kNan}, {5});  // comparisons with NaN are false
  expect_values(searchsorted(with_nan, wanted), {0, 0, 1, 5, 5, 5, 5, 5});
  expect_values(searchsorted(with_nan, wanted, {.right = true}), {0, 1, 5, 5, 5, 5, 5, 5});
}

TEST(SearchSorted, RowByRow) {
  const Tensor sequence = tensor({{1, 3, 5}, {2, 4, 6}}), wanted = tensor({{3, 6}, {3, 0}});
  expect_values(searchsorted(sequence, wanted), {1, 3, 1, 0});
  expect_values(searchsorted(sequence.t().contiguous().t(), wanted.t().contiguous().t()), {1, 3, 1, 0});
  const Tensor narrow = searchsorted(sequence, wanted, {.out_int32 = true, .side = "right"});
  EXPECT_EQ(narrow.dtype(), kInt32);
  expect_values(narrow, {2, 3, 1, 0});
}

TEST(SearchSorted, OneSequenceForValuesOfAnyShape) {
  const Tensor found = searchsorted(tensor({1, 3, 5}), arange(8).view({2, 2, 2}));
  EXPECT_EQ(found.dtype(), kInt64);
  EXPECT_EQ(found.sizes(), (Shape{2, 2, 2}));
  expect_values(found, {0, 0, 1, 1, 2, 2, 3, 3});
}

TEST(SearchSorted, ANumberAndASorter) {
  EXPECT_EQ(searchsorted(tensor({1, 3, 5}), 3.5).item<int>(), 2);
  EXPECT_EQ(searchsorted(tensor({1, 3, 5}), 3.5).sizes(), Shape());
  EXPECT_EQ(searchsorted(tensor({1, 3, 5}), tensor(3)).item<int>(), 1);
  expect_values(searchsorted(tensor({5, 1, 3}), tensor({2, 4, 6, 0}), {.sorter = tensor({1, 2, 0})}), {1, 2, 3, 0});
  expect_values(searchsorted(tensor({1., 2.5}), tensor({1, 2, 3})), {0, 1, 2});  // dtypes promote
}

TEST(SearchSorted, Empty) {
  expect_values(searchsorted(zeros(0), tensor({1., 2.})), {0, 0});
  EXPECT_EQ(searchsorted(tensor({1.}), zeros({2, 0})).sizes(), (Shape{2, 0}));
  EXPECT_EQ(searchsorted(zeros({0, 3}), zeros({0, 2})).sizes(), (Shape{0, 2}));
  EXPECT_EQ(searchsorted(zeros({2, 3}), zeros({2, 0}), {.out_int32 = true}).dtype(), kInt32);
}

TEST(SearchSorted, RefusesWhatDoesNotFit) {
  const Tensor x = tensor({1., 2.});
  EXPECT_THROW(searchsorted(x, x, {.right = true, .side = "left"}), InvalidArgument);
  EXPECT_NO_THROW(searchsorted(x, x, {.right = true, .side = "right"}));
  EXPECT_THROW(searchsorted(x, x, {.side = "above"}), InvalidArgument);
  EXPECT_THROW(searchsorted(tensor(1.), x), ShapeError);
  EXPECT_THROW(searchsorted(zeros({2, 3}), x), ShapeError);
  EXPECT_THROW(searchsorted(zeros({2, 3}), 1), ShapeError);
  EXPECT_THROW(searchsorted(x, x, {.sorter = tensor({0})}), ShapeError);
  EXPECT_THROW(searchsorted(x, tensor({true})), DTypeError);
}

TEST(Bucketize, AboveAndBelowABoundary) {
  const Tensor x = tensor({{3, 6, 9}, {3, 6, 9}}), boundaries = tensor({1, 3, 5, 7, 9});
  expect_values(bucketize(x, boundaries), {1, 3, 4, 1, 3, 4});
  expect_values(bucketize(x, boundaries, {.right = true}), {2, 3, 5, 2, 3, 5});
  EXPECT_EQ(bucketize(4, boundaries).item<int>(), 2);
  EXPECT_EQ(bucketize(x, boundaries, {.out_int32 = true}).dtype(), kInt32);
  EXPECT_THROW(bucketize(x, boundaries.view({1, 5})), ShapeError);
}

TEST(Histc, CountsInParts) {
  expect_values(histc(tensor({1., 2., 1.}), 4, 0, 3), {0, 2, 1, 0});
  expect_values(histc(tensor({1., 2., 1., 4.5, -1.}), 3), {1, 3, 1});
  expect_values(tensor({2., 2.}).histc(3), {0, 2, 0});
  expect_values(histc(zeros(0), 3), {0, 0, 0});
  expect_values(histc(doubles({1, kNan, 5, 2}, {4}), 2, 1, 2), {1, 1});
  expect_values(histc(linspace(0, 1, 11)).nonzero().flatten(), {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99});
  EXPECT_EQ(histc(tensor({1., 2.}, kFloat16)).dtype(), kFloat16);
  expect_values(histc(tensor({1., 999., 1000.}, kFloat16), 1000, 0, 1000).nonzero().flatten(), {1, 999});
}

TEST(Histc, RefusesWhatHasNoParts) {
  EXPECT_THROW(histc(tensor({1})), DTypeError);
  EXPECT_THROW(histc(tensor({1.}), 0), InvalidArgument);
  EXPECT_THROW(histc(tensor({1.}), 2, 3, 2), InvalidArgument);
  EXPECT_THROW(histc(doubles({1, kNan}, {2}), 2), InvalidArgument);
}

TEST(Search, OnSimulatedDevices) {
  const TestDevices devices(1);
  const Tensor sequence = sort(randn({3, 40})).values, wanted = randn({3, 17});
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8}) {
    const Tensor s = (sequence.abs() * 9).to(dtype).sort().values, w = (wanted.abs() * 9).to(dtype);
    expect_same(searchsorted(s.cuda(), w.cuda()).cpu(), sum(lt(s.unsqueeze(1), w.unsqueeze(2)), 2));
    expect_same(searchsorted(s.cuda(), w.cuda(), {.right = true}).cpu(), sum(le(s.unsqueeze(1), w.unsqueeze(2)), 2));
  }
  expect_values(histc(wanted.cuda(), 5, -1, 1), values(histc(wanted, 5, -1, 1)));
}

}  // namespace
}  // namespace lockstep
