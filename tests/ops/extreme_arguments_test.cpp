// Arguments near the limits of 64 bits: the right result or a typed error. (The sanitizers' build shows overflows.)
#include <gtest/gtest.h>

#include <limits>

#include "ops/all_ops.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::extreme_arguments {
namespace {

using testing::thrown;
using testing::values;
using Numbers = std::vector<double>;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

const Tensor x = tensor({1., 2., 3.});

TEST(ExtremeArguments, OfRepeatThrow) {
  EXPECT_EQ(thrown<ShapeError>([] { repeat(x, {kMost}); }),
            "[repeat] expected a size that fits 64 bits, got 3 times 9223372036854775807");
  EXPECT_THROW(repeat(x, {kMost, kMost}), ShapeError);
  EXPECT_THROW(repeat(x, {kLeast}), ShapeError);
  EXPECT_THROW(repeat_interleave(x, kMost, 0), ShapeError);
  EXPECT_EQ(repeat(zeros({0}), {kMost}).sizes(), Shape{0});
  EXPECT_EQ(repeat_interleave(zeros({0}), kMost, 0).sizes(), Shape{0});
}

TEST(ExtremeArguments, OfPadThrow) {
  for (const std::int64_t before : {kLeast, kMost, std::int64_t(-4)})
    for (const std::int64_t after : {kLeast, kMost, std::int64_t(1)})
      EXPECT_THROW(pad(x, {before, after}), ShapeError) << before << ", " << after;
  EXPECT_THROW(pad(x, {-2, -2}), ShapeError);
  EXPECT_EQ(values(pad(x, {-1, -2})), Numbers{});
  EXPECT_EQ(values(pad(x, {-1, 1})), (Numbers{2, 3, 0}));
}

TEST(ExtremeArguments, OfVarianceDivideByWhatTheySay) {
  EXPECT_NEAR(var(x, {0}, {.correction = kLeast}).item<double>(), 2 / 0x1p63, 1e-25);
  EXPECT_TRUE(std::isinf(var(x, {0}, {.correction = kMost}).item<double>()));
  EXPECT_NEAR(stddev(x, {0}, {.correction = kLeast}).item<double>(), std::sqrt(2 / 0x1p63), 1e-15);
}

TEST(ExtremeArguments, OfRollWrapAround) {
  EXPECT_EQ(values(roll(x, {kMost}, {0})), values(roll(x, {kMost % 3}, {0})));
  Tensor leaf = tensor({1., 2., 3.}, {.requires_grad = true});
  const Tensor rolled = roll(leaf, {kLeast}, {0});  // by -2
  EXPECT_EQ(values(rolled), (Numbers{3, 1, 2}));
  sum(rolled * tensor({10., 20., 30.})).backward();
  EXPECT_EQ(values(leaf.grad()), (Numbers{20, 30, 10}));
}

TEST(ExtremeArguments, OfViewsAreClampedOrThrow) {
  EXPECT_EQ(values(x.slice(0, kLeast, kMost, kMost)), Numbers{1});
  EXPECT_EQ(values(x.slice(0, kMost, kLeast)), Numbers{});
  EXPECT_THROW(x.narrow(0, kMost, kMost), ShapeError);
  EXPECT_THROW(x.narrow(0, 1, kMost), ShapeError);
  EXPECT_THROW(x.select(0, kLeast), ShapeError);
  EXPECT_THROW(x.expand({kMost, 3}), ShapeError);
  EXPECT_THROW(x.view({kMost, kMost}), ShapeError);
  EXPECT_THROW(x.unsqueeze(kMost), ShapeError);
  EXPECT_THROW(flip(x, {kLeast}), ShapeError);
  EXPECT_THROW(sum(x, {kMost}), ShapeError);
}

TEST(ExtremeArguments, OfJoinsThrow) {
  const Tensor wide = ones({1}).expand({kMost});
  EXPECT_THROW(cat({wide, wide}), ShapeError);
  EXPECT_EQ(chunk(x, kMost).size(), 3u);
  EXPECT_THROW(split(x, {kMost, kMost}), ShapeError);
}

TEST(ExtremeArguments, OfDiagonalsKeepAllOrNothing) {
  const Tensor square = ones({2, 2});
  EXPECT_EQ(values(tril(square, kMost)), Numbers(4, 1));
  EXPECT_EQ(values(tril(square, kLeast)), Numbers(4, 0));
  EXPECT_EQ(values(triu(square, kMost)), Numbers(4, 0));
  EXPECT_EQ(values(triu(square, kLeast)), Numbers(4, 1));
}

TEST(ExtremeArguments, OfCreationThrow) {
  EXPECT_THROW(zeros({kMost}), ShapeError);
  EXPECT_THROW(arange(0, 1e300), InvalidArgument);
  EXPECT_THROW(one_hot(tensor({0, 1}), kMost), ShapeError);
  EXPECT_THROW(topk(x, kMost), ShapeError);
}

}  // namespace
}  // namespace lockstep::extreme_arguments
