// Padding layers.
#include <gtest/gtest.h>

#include <lockstep/nn/padding.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::padding_layers {
namespace {

using testing::thrown;
using testing::values;

TEST(PaddingLayers, PadAllSidesOrEach) {
  const Tensor line = randn({2, 3, 5}), image = randn({2, 3, 4, 5}), volume = randn({1, 2, 3, 4, 5});
  EXPECT_EQ(values(nn::ConstantPad1d(2, 1.5)(line)), values(pad(line, {2, 2}, 1.5)));
  EXPECT_EQ(values(nn::ConstantPad2d({1, 2, 0, -1}, 3)(image)), values(pad(image, {1, 2, 0, -1}, 3)));
  EXPECT_EQ(values(nn::ConstantPad3d(1, 2)(volume)), values(pad(volume, {1, 1, 1, 1, 1, 1}, 2)));
  EXPECT_EQ(values(nn::ZeroPad1d({1, 0})(line)), values(pad(line, {1, 0})));
  EXPECT_EQ(values(nn::ZeroPad2d(1)(image)), values(pad(image, {1, 1, 1, 1})));
  EXPECT_EQ(values(nn::ZeroPad3d(1)(volume)), values(pad(volume, {1, 1, 1, 1, 1, 1})));
  EXPECT_EQ(values(nn::ReflectionPad1d(2)(line)), values(pad(line, {2, 2}, {.mode = PadMode::reflect})));
  EXPECT_EQ(values(nn::ReflectionPad2d({1, 2, 3, 0})(image)),
            values(pad(image, {1, 2, 3, 0}, {.mode = PadMode::reflect})));
  EXPECT_EQ(values(nn::ReflectionPad3d(1)(volume)),
            values(pad(volume, {1, 1, 1, 1, 1, 1}, {.mode = PadMode::reflect})));
  EXPECT_EQ(values(nn::ReplicationPad1d(7)(line)), values(pad(line, {7, 7}, {.mode = PadMode::replicate})));
  EXPECT_EQ(values(nn::ReplicationPad2d(1)(image)), values(pad(image, {1, 1, 1, 1}, {.mode = PadMode::replicate})));
  EXPECT_EQ(values(nn::ReplicationPad3d(1)(volume)),
            values(pad(volume, {1, 1, 1, 1, 1, 1}, {.mode = PadMode::replicate})));
  EXPECT_EQ(values(nn::CircularPad1d(2)(line)), values(pad(line, {2, 2}, {.mode = PadMode::circular})));
  EXPECT_EQ(values(nn::CircularPad2d(3)(image)), values(pad(image, {3, 3, 3, 3}, {.mode = PadMode::circular})));
  EXPECT_EQ(values(nn::CircularPad3d(1)(volume)), values(pad(volume, {1, 1, 1, 1, 1, 1}, {.mode = PadMode::circular})));
  EXPECT_EQ(nn::ReflectionPad2d(1)(image[0]).sizes(), (Shape{3, 6, 7}));
}

TEST(PaddingLayers, RefuseWhatDoesNotFit) {
  EXPECT_EQ(thrown<ShapeError>([] {
              nn::ZeroPad2d({1, 2, 3});
            }),
            "[pad] expected one number, or 4 (two for each dimension), got 3 of them");
  EXPECT_EQ(thrown<ShapeError>([] {
              nn::ReflectionPad2d(1)(randn({4, 4}));
            }),
            "[pad] expected x [N, C, 2 sizes] or [C, 2 sizes], got [4, 4]");
}

}  // namespace
}  // namespace lockstep::padding_layers
