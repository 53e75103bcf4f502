// x.index({...}) against the equivalent views.
#include <lockstep/tensor/indexing.h>

#include <gtest/gtest.h>

#include <lockstep/tensor/creation.h>

#include "support/thrown.h"

namespace lockstep {
namespace {

using testing::thrown;

class Indexing : public ::testing::Test {
 protected:
  const Tensor x_ = arange(60).view({3, 4, 5});

  static void expect_equal(const Tensor& got, const Tensor& expected) {
    EXPECT_EQ(got.sizes(), expected.sizes());
    EXPECT_EQ(got.to_vector<std::int64_t>(), expected.to_vector<std::int64_t>());
  }
};

TEST_F(Indexing, TakesIntegersFromTheFront) {
  expect_equal(x_.index({1}), x_.select(0, 1));
  expect_equal(x_.index({1, -1}), x_.select(0, 1).select(0, 3));
  EXPECT_EQ(x_.index({2, 3, 4}).item<int>(), 59);
}

TEST_F(Indexing, TakesSlicesWithSteps) {
  expect_equal(x_.index({Slice(1, 3), Slice(), Slice(0, 5, 2)}), x_.slice(0, 1, 3).slice(2, 0, 5, 2));
  expect_equal(x_.index({Slice(-2, -1), 0}), x_.slice(0, 1, 2).select(1, 0));
}

TEST_F(Indexing, FillsAnEllipsisWithWholeDimensions) {
  expect_equal(x_.index({Ellipsis, 2}), x_.select(2, 2));
  expect_equal(x_.index({1, Ellipsis, Slice(1, 3)}), x_.select(0, 1).slice(1, 1, 3));
  expect_equal(x_.index({0, 1, 2, Ellipsis}), x_[0][1][2]);
  expect_equal(x_.index({Ellipsis}), x_);
}

TEST_F(Indexing, AddsDimensions) {
  expect_equal(x_.index({None, 1, None, Ellipsis, None}), x_.select(0, 1).unsqueeze(0).unsqueeze(1).unsqueeze(4));
  EXPECT_EQ(x_.index({0, Slice(1, 3), Ellipsis, None}).sizes(), (Shape{2, 5, 1}));
}

TEST_F(Indexing, IsTheTensorItselfWithoutIndices) { EXPECT_TRUE(x_.index({}).is_same(x_)); }

TEST_F(Indexing, SharesTheArray) {
  Tensor x = zeros({3, 4});
  x.index({Slice(), 1}).fill_(7);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 7, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0}));
}

TEST_F(Indexing, RefusesTooManyIndicesAndTwoEllipses) {
  EXPECT_EQ(thrown<ShapeError>([&] {
              x_.index({0, 0, 0, 0});
            }),
            "[index] expected at most 3 indices for shape [3, 4, 5], got 4");
  EXPECT_EQ(thrown<ShapeError>([&] {
              x_.index({Ellipsis, 0, Ellipsis});
            }),
            "[index] expected at most one Ellipsis, got two");
  EXPECT_THROW(x_.index({3}), ShapeError);
  EXPECT_THROW(x_.index({0, Slice(0, 4, 0)}), ShapeError);
  EXPECT_THROW(tensor(1).index({0}), ShapeError);
  EXPECT_EQ(tensor(1).index({None, Ellipsis}).sizes(), (Shape{1}));
}

}  // namespace
}  // namespace lockstep
