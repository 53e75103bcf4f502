// Upsampling, shuffling, folding, local response normalization and Unflatten as layers.
#include <gtest/gtest.h>

#include <lockstep/nn/fold.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/padding.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/nn/shuffle.h>
#include <lockstep/nn/upsample.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::image_layers {
namespace {

using testing::thrown;
using testing::values;

TEST(ImageLayers, DoAsTheirFunctions) {
  const Tensor x = randn({2, 4, 6, 6});
  EXPECT_EQ(values(nn::Upsample({.scale_factor = {1.5, 2}, .mode = Interpolation::bicubic})(x)),
            values(interpolate(x, {.scale_factor = {1.5, 2}, .mode = Interpolation::bicubic})));
  EXPECT_EQ(values(nn::UpsamplingNearest2d({.size = 9})(x)), values(interpolate(x, {.size = 9})));
  EXPECT_EQ(values(nn::UpsamplingBilinear2d({.scale_factor = 2})(x)),
            values(interpolate(x, {.scale_factor = 2, .mode = Interpolation::bilinear, .align_corners = true})));
  EXPECT_EQ(values(nn::PixelShuffle(2)(x)), values(pixel_shuffle(x, 2)));
  EXPECT_EQ(values(nn::PixelUnshuffle(3)(x)), values(pixel_unshuffle(x, 3)));
  EXPECT_EQ(values(nn::ChannelShuffle(2)(x)), values(channel_shuffle(x, 2)));
  EXPECT_EQ(values(nn::Unfold({2, 3}, {.stride = 2})(x)), values(unfold(x, {2, 3}, {.stride = 2})));
  const Tensor columns = unfold(x, 2);
  EXPECT_EQ(values(nn::Fold({6, 6}, 2)(columns)), values(fold(columns, {6, 6}, 2)));
  EXPECT_EQ(values(nn::LocalResponseNorm(3, {.alpha = 0.1})(x)), values(local_response_norm(x, 3, {.alpha = 0.1})));
}

TEST(Unflatten, DividesADimension) {
  EXPECT_EQ(nn::Unflatten(1, {3, -1})(randn({2, 12})).sizes(), (Shape{2, 3, 4}));
  EXPECT_EQ(nn::Unflatten(-2, {2, 2})(randn({4, 3})).sizes(), (Shape{2, 2, 3}));
  EXPECT_EQ(nn::Unflatten(1, {3, 4})(randn({0, 12})).sizes(), (Shape{0, 3, 4}));
  EXPECT_EQ(thrown<ShapeError>([] {
              nn::Unflatten(1, {5, -1})(randn({2, 12}));
            }),
            "[Unflatten] expected sizes whose product is dimension 1 of [2, 12], or one of them -1, got [5, -1]");
  EXPECT_EQ(thrown<ShapeError>([] {
              nn::Unflatten(1, {-1, -1})(randn({2, 12}));
            }),
            "[Unflatten] expected sizes whose product is dimension 1 of [2, 12], or one of them -1, got [-1, -1]");
}

TEST(ImageLayers, GoInSequences) {
  nn::Sequential model(nn::ReflectionPad2d(1), nn::PixelUnshuffle(2), nn::Upsample({.scale_factor = 2}), nn::Flatten(),
                       nn::Unflatten(1, {4, -1}));
  EXPECT_EQ(model(randn({2, 1, 6, 6})).sizes(), (Shape{2, 4, 64}));
}

}  // namespace
}  // namespace lockstep::image_layers
