// Convolution layers: names and shapes of their state, initial values, padding modes, lazy forms, and errors.
#include <lockstep/nn/conv.h>

#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

std::vector<std::pair<std::string, Shape>> shapes_of(const nn::ModuleBase& layer) {
  std::vector<std::pair<std::string, Shape>> shapes;
  for (const auto& [name, value] : layer.state_dict()) shapes.emplace_back(name, value.sizes());
  return shapes;
}

using Shapes = std::vector<std::pair<std::string, Shape>>;

TEST(ConvLayers, HoldWhatPyTorchsHold) {
  EXPECT_EQ(shapes_of(nn::Conv1d(4, 6, 3)), (Shapes{{"weight", {6, 4, 3}}, {"bias", {6}}}));
  EXPECT_EQ(shapes_of(nn::Conv2d(4, 6, {3, 2}, {.groups = 2})), (Shapes{{"weight", {6, 2, 3, 2}}, {"bias", {6}}}));
  EXPECT_EQ(shapes_of(nn::Conv3d(4, 6, 3, {.bias = false})), (Shapes{{"weight", {6, 4, 3, 3, 3}}}));
  EXPECT_EQ(shapes_of(nn::ConvTranspose2d(4, 6, 3, {.groups = 2})), (Shapes{{"weight", {4, 3, 3, 3}}, {"bias", {6}}}));
}

// Kaiming's uniform initialization with a = sqrt(5) has the bound 1 / sqrt(fan in).
TEST(ConvLayers, StartWithinTheirBounds) {
  const nn::Conv2d layer(4, 500, 5, {.groups = 2});
  const double bound = 1 / std::sqrt(2. * 25);
  for (const Tensor& parameter : {Tensor(layer.weight), Tensor(*layer.bias)}) {
    EXPECT_LE(max(abs(parameter)).item<double>(), bound);
    EXPECT_GT(max(parameter).item<double>(), 0.95 * bound);
    EXPECT_LT(min(parameter).item<double>(), -0.95 * bound);
  }
}

TEST(ConvLayers, ComputeTheFunctionOfTheirName) {
  const TestDevices devices(1);
  nn::Conv2d conv(3, 4, 3, {.stride = 2, .padding = {1, 0}});
  const Tensor x = randn({2, 3, 6, 5});
  EXPECT_EQ(values(conv(x)), values(conv2d(x, conv.weight, *conv.bias, {.stride = 2, .padding = {1, 0}})));
  nn::ConvTranspose1d back(3, 4, 3, {.stride = 2, .output_padding = 1});
  const Tensor y = randn({2, 3, 6});
  EXPECT_EQ(values(back(y)), values(conv_transpose1d(y, back.weight, *back.bias, {.stride = 2, .output_padding = 1})));
  conv.to("cuda:0");
  EXPECT_EQ(conv(x.cuda()).device(), Device("cuda:0"));
  EXPECT_EQ(nn::Conv3d(1, 2, 1)(zeros({1, 2, 2, 2})).sizes(), (Shape{2, 2, 2, 2}));
}

Tensor with_identity(nn::Conv1d& layer) {
  layer.weight.zero_();
  layer.weight.select(0, 0).select(0, 0).select(0, 2).fill_(1);  // returns the element two places to the right
  return tensor({1., 2., 3., 4.}, {.dtype = kFloat32}).view({1, 1, 4});
}

TEST(ConvPaddingMode, SaysWhatIsAroundTheImage) {
  const NoGrad guard;
  const auto shifted = [](nn::PaddingMode mode) {
    nn::Conv1d layer(1, 1, 3, {.padding = 2, .bias = false, .padding_mode = mode});
    const Tensor x = with_identity(layer);
    return values(layer(x));
  };
  EXPECT_EQ(shifted(nn::PaddingMode::zeros), (std::vector<double>{1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(shifted(nn::PaddingMode::circular), (std::vector<double>{1, 2, 3, 4, 1, 2}));
  EXPECT_EQ(shifted(nn::PaddingMode::reflect), (std::vector<double>{1, 2, 3, 4, 3, 2}));
  EXPECT_EQ(shifted(nn::PaddingMode::replicate), (std::vector<double>{1, 2, 3, 4, 4, 4}));
  nn::Conv1d layer(1, 1, 3, {.padding = 4, .padding_mode = nn::PaddingMode::reflect});
  EXPECT_EQ(thrown<ShapeError>([&] {
              layer(zeros({1, 1, 4}));
            }),
            "[pad] reflect mode can add at most size - 1 elements per side: dimension 2 of shape [1, 1, 4] has size 4, "
            "got 4");
}

TEST(ConvPaddingMode, WorksWithSame) {
  for (const auto mode : {nn::PaddingMode::zeros, nn::PaddingMode::circular}) {
    nn::Conv2d layer(2, 3, {4, 2}, {.padding = nn::Padding::same, .padding_mode = mode});
    EXPECT_EQ(layer(randn({1, 2, 6, 5})).sizes(), (Shape{1, 3, 6, 5}));
  }
}

TEST(LazyConv, TakesItsChannelsFromTheFirstBatch) {
  nn::LazyConv2d layer(6, 3, {.groups = 2});
  EXPECT_THROW(layer.state_dict(), InvalidArgument);
  EXPECT_EQ(thrown<ShapeError>([&] {
              layer(zeros({4, 4}));
            }),
            "[LazyConv2d] expected x of 4 dimensions, or of 3 without a batch, got [4, 4]");
  EXPECT_EQ(layer(zeros({1, 4, 5, 5}, {.dtype = kFloat64})).sizes(), (Shape{1, 6, 3, 3}));
  EXPECT_EQ(layer.weight.sizes(), (Shape{6, 2, 3, 3}));
  EXPECT_EQ(layer.bias->dtype(), kFloat64);
  nn::LazyConvTranspose1d back(4, 3);
  EXPECT_EQ(back(zeros({2, 5})).sizes(), (Shape{4, 7}));
  EXPECT_EQ(back.weight.sizes(), (Shape{2, 4, 3}));
  nn::LazyConv2d loaded(6, 3, {.groups = 2});
  loaded.load_state_dict(layer.state_dict());
  EXPECT_EQ(values(loaded.weight), values(layer.weight));
}

TEST(ConvLayer, TakesAListOfOneNumberForAllDimensions) {
  const Tensor x = randn({1, 2, 5, 5});
  nn::Conv2d listed(2, 3, {3}, {.stride = {2}, .padding = {1}}), plain(2, 3, 3, {.stride = 2, .padding = 1});
  plain.load_state_dict(listed.state_dict());
  EXPECT_EQ(values(listed(x)), values(plain(x)));
}

TEST(ConvLayerErrors, NameTheLayer) {
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::Conv2d(3, 4, 3, {.groups = 2}); }),
            "[Conv2d] expected groups that divide the channels, got 2 groups of 3 and 4 channels");
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::ConvTranspose3d(-1, 4, 3); }),
            "[ConvTranspose3d] expected channels of at least 0, got -1 and 4");
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::Conv1d(1, 1, 0); }), "[Conv1d] expected kernel_size of at least 1, got 0");
  EXPECT_EQ(thrown<ShapeError>([] {
              nn::Conv2d(1, 1, {1, 2, 3});
            }),
            "[Conv2d] expected one kernel_size, or 2 (one for each dimension), got [1, 2, 3]");
}

}  // namespace
}  // namespace lockstep
