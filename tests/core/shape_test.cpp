// Shapes, and the errors for invalid ones.
#include <lockstep/core/shape.h>

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <sstream>
#include <vector>

#include <lockstep/core/error.h>

#include "support/thrown.h"

namespace lockstep {
namespace {

using testing::thrown;

std::string printed(const Shape& shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

TEST(Shape, PrintsItsSizes) {
  EXPECT_EQ(printed({}), "[]");
  EXPECT_EQ(printed({2, 3}), "[2, 3]");
}

TEST(Shape, HoldsEightDimensionsAndNoMore) {
  Shape shape{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(shape.elements(), 40320);
  EXPECT_EQ(thrown<ShapeError>([&] { shape.push_back(9); }), "[shape] expected at most 8 dimensions, got 9");
  EXPECT_EQ(shape, (Shape{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
  EXPECT_THROW(Shape(std::vector<std::int64_t>(1000, 1)), ShapeError);
  EXPECT_THROW(Shape::filled(9, 1), ShapeError);
  EXPECT_THROW(Shape::filled(-1, 1), ShapeError);
}

TEST(Shape, InsertsAndErasesAnywhere) {
  Shape shape{5, 7};
  shape.insert(1, 6);
  EXPECT_EQ(shape, (Shape{5, 6, 7}));
  shape.insert(0, 4);
  shape.insert(4, 8);
  EXPECT_EQ(shape, (Shape{4, 5, 6, 7, 8}));
  shape.erase(0);
  shape.erase(3);
  shape.erase(1);
  EXPECT_EQ(shape, (Shape{5, 7}));
}

TEST(Shape, ComparesOnlyWhatItHolds) {
  Shape shape{1, 2, 3};
  shape.erase(2);
  EXPECT_EQ(shape, (Shape{1, 2}));
  EXPECT_NE(shape, (Shape{1, 2, 3}));
  EXPECT_NE(shape, (Shape{1}));
}

TEST(Shape, HasOneElementWithoutDimensions) { EXPECT_EQ(Shape().elements(), 1); }

TEST(CheckedElements, RefusesNegativeSizesAndOverflow) {
  const std::int64_t large = std::int64_t(1) << 32;
  EXPECT_EQ(checked_elements("op", {3, 0, 5}), 0);
  EXPECT_EQ(checked_elements("op", {large, large / 4}), large * (large / 4));
  EXPECT_EQ(thrown<ShapeError>([&] {
              checked_elements("op", {2, -1});
            }),
            "[op] expected sizes of at least 0 whose product fits 64 bits, got [2, -1]");
  EXPECT_THROW(checked_elements("op", {large, large}), ShapeError);
  EXPECT_THROW(checked_elements("op", {large, 0, large}), ShapeError);  // its strides would overflow
  EXPECT_THROW(checked_elements("op", {std::numeric_limits<std::int64_t>::min(), -1}), ShapeError);
}

TEST(ContiguousStrides, CountTheElementsBehind) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    Shape sizes;
    for (auto rank = random() % 6; rank > 0; --rank) sizes.push_back(1 + random() % 4);
    const Shape strides = contiguous_strides(sizes);
    for (int i = 0; i < sizes.rank(); ++i) {
      std::int64_t behind = 1;
      for (int j = i + 1; j < sizes.rank(); ++j) behind *= sizes[j];
      EXPECT_EQ(strides[i], behind);
    }
  }
}

TEST(Broadcast, GivesEachDimensionTheSizeThatIsNotOne) {
  EXPECT_EQ(broadcast("op", {3, 1}, {4}), (Shape{3, 4}));
  EXPECT_EQ(broadcast("op", {}, {2, 5}), (Shape{2, 5}));
  EXPECT_EQ(broadcast("op", {1, 0}, {7, 1}), (Shape{7, 0}));
  EXPECT_EQ(broadcast("op", {2, 3, 4}, {3, 1}), (Shape{2, 3, 4}));
}

TEST(Broadcast, RefusesOtherPairsAndNamesBoth) {
  EXPECT_EQ(thrown<ShapeError>([] {
              broadcast("add", {2, 3}, {2, 4});
            }),
            "[add] expected shapes that broadcast, got [2, 3] and [2, 4]");
  EXPECT_THROW(broadcast("add", {0}, {2}), ShapeError);
}

TEST(Shape, RefusesPlacesThatAreNotThere) {
  Shape shape = {2, 3};
  EXPECT_EQ(thrown<ShapeError>([&] { shape.insert(3, 1); }), "[insert] expected an index from 0 to 2, got 3");
  EXPECT_THROW(shape.insert(-1, 1), ShapeError);
  EXPECT_THROW(shape.erase(2), ShapeError);
  EXPECT_THROW(shape.erase(-1), ShapeError);
  EXPECT_THROW(Shape().erase(0), ShapeError);
  EXPECT_THROW(Shape::filled(-1, 1), ShapeError);
  EXPECT_EQ(shape, (Shape{2, 3}));
}

TEST(WrapDim, CountsFromEitherEnd) {
  for (int rank = 1; rank <= 4; ++rank)
    for (int dim = 0; dim < rank; ++dim) {
      EXPECT_EQ(wrap_dim("op", dim, rank), dim);
      EXPECT_EQ(wrap_dim("op", dim - rank, rank), dim);
    }
  EXPECT_EQ(wrap_dim("op", -1, 0), 0);
}

TEST(WrapDim, RefusesWhatIsOutside) {
  EXPECT_EQ(thrown<ShapeError>([] { wrap_dim("sum", 2, 2); }), "[sum] expected a dimension in [-2, 1], got 2");
  EXPECT_THROW(wrap_dim("sum", -3, 2), ShapeError);
  EXPECT_THROW(wrap_dim("sum", 1, 0), ShapeError);
  EXPECT_THROW(wrap_dim("sum", std::numeric_limits<std::int64_t>::max(), 2), ShapeError);
}

}  // namespace
}  // namespace lockstep
