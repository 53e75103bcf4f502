// Random transforms: exact values for ranges that leave one choice, possible values for others.
#include <lockstep/data/augmentations.h>

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include <lockstep/data/datasets.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/data/transforms.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/layout.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::data::transforms {
namespace {

using testing::thrown;
using Values = std::vector<double>;

Tensor numbered(std::int64_t height, std::int64_t width) {
  return arange(double(height * width)).view({1, height, width}).to(kFloat64);
}

void expect_near(const Tensor& got, const Values& expected, double tolerance = 1e-12) {
  const Values values = got.cpu().to(kFloat64).to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << i;
}

TEST(RandomVerticalFlip, MirrorsTopAndBottom) {
  EXPECT_EQ(RandomVerticalFlip(1)(numbered(2, 2)).to_vector<double>(), (Values{2, 3, 0, 1}));
  EXPECT_EQ(RandomVerticalFlip(0)(numbered(2, 2)).to_vector<double>(), (Values{0, 1, 2, 3}));
  EXPECT_THROW(RandomVerticalFlip(1.5), InvalidArgument);
}

TEST(RandomRotation, TurnsCounterclockwise) {
  const TestDevices devices(1);
  const Tensor image = numbered(3, 3);
  for (const char* how : {"nearest", "bilinear"}) {
    const RandomRotationOptions options = {.interpolation = how};
    const Values quarter = {2, 5, 8, 1, 4, 7, 0, 3, 6};  // numpy.rot90
    expect_near(RandomRotation({90, 90}, options)(image), quarter);
    expect_near(RandomRotation({90, 90}, options)(image.to("cuda:0")), quarter);
    expect_near(RandomRotation({180, 180}, options)(image), {8, 7, 6, 5, 4, 3, 2, 1, 0});
    expect_near(RandomRotation(0, options)(image), image.to_vector<double>());
  }
  EXPECT_EQ(RandomRotation({90, 90})(image.to(kUInt8)).dtype(), kUInt8);
}

// At 45 degrees each corner comes from a point sqrt(2) pixels from the centre, along an axis.
TEST(RandomRotation, FillsWhatComesInFromOutside) {
  const double s = std::sqrt(2.);
  const Tensor turned = RandomRotation({45, 45}, {.interpolation = "bilinear", .fill = 10})(ones({1, 3, 3}, kFloat64));
  const double inside = 2 - s, corner = inside * 1 + (1 - inside) * 10;  // the weight of an edge pixel
  expect_near(turned, {corner, 1, corner, 1, 1, 1, corner, 1, corner});
}

TEST(RandomRotation, StaysInItsRange) {
  manual_seed(1);
  std::set<double> corners;
  const RandomRotation rotate(180);
  for (int i = 0; i < 200; ++i) corners.insert(rotate(numbered(3, 3)).to_vector<double>()[4]);
  EXPECT_EQ(corners, (std::set<double>{4}));  // the centre stays
  EXPECT_THROW(RandomRotation(-3), InvalidArgument);
  EXPECT_THROW(RandomRotation(3, {.interpolation = "area"}), InvalidArgument);
}

TEST(RandomResizedCrop, TakesTheWholeWhereTheRangesSaySo) {
  const Tensor image = numbered(4, 4);
  expect_near(RandomResizedCrop({2, 2}, {.scale = {1, 1}, .ratio = {1, 1}})(image),
              Resize({2, 2})(image).to_vector<double>());
}

TEST(RandomResizedCrop, TakesWindowsOfTheirAreaAnywhere) {
  manual_seed(1);
  std::set<double> corners;
  const RandomResizedCrop crop({2, 2}, {.scale = {0.25, 0.25}, .ratio = {1, 1}});
  for (int i = 0; i < 300; ++i) {
    const Values window = crop(numbered(4, 4)).to_vector<double>();
    EXPECT_EQ(window[3], window[0] + 5);
    corners.insert(window[0]);
  }
  EXPECT_EQ(corners, (std::set<double>{0, 1, 2, 4, 5, 6, 8, 9, 10}));
}

TEST(RandomResizedCrop, FallsBackToTheMiddle) {
  const Tensor image = numbered(1, 9);  // no window of half the area is square
  expect_near(RandomResizedCrop({1, 1}, {.scale = {0.5, 0.5}, .ratio = {1, 1}})(image), {4});
  EXPECT_THROW(RandomResizedCrop({0, 1}), InvalidArgument);
  EXPECT_THROW(RandomResizedCrop({1, 1}, {.scale = {0.5, 0.2}}), InvalidArgument);
  EXPECT_THROW(RandomResizedCrop({1, 1})(zeros({1, 2, 2}, kUInt8)), DTypeError);
}

TEST(RandomErasing, FillsARectangleOfACopy) {
  manual_seed(1);
  const Tensor image = ones({2, 8, 8});
  std::set<std::vector<float>> seen;
  const RandomErasing erase({.p = 1, .scale = {0.25, 0.25}, .ratio = {1, 1}, .value = -1});
  for (int i = 0; i < 50; ++i) {
    const Tensor erased = erase(image);
    EXPECT_EQ((erased == -1).sum().item<std::int64_t>(), 2 * 16);
    seen.insert(erased.to_vector<float>());
  }
  EXPECT_GT(seen.size(), 10u);
  EXPECT_EQ((image == 1).sum().item<std::int64_t>(), 128);
  EXPECT_TRUE(RandomErasing({.p = 0})(image).is_same(image));
  EXPECT_TRUE(RandomErasing({.p = 1, .scale = {1, 1}, .ratio = {1, 1}})(image).is_same(image));  // does not fit
  EXPECT_THROW(RandomErasing({.p = 2}), InvalidArgument);
}

// A pixel (0.2, 0.4, 0.6): grey 0.2989 0.2 + 0.587 0.4 + 0.114 0.6 = 0.36298; hue 210 degrees.
TEST(ColorJitter, ChangesWhatItIsToldTo) {
  const Tensor pixel = tensor({0.2, 0.4, 0.6}, {.dtype = kFloat64}).view({3, 1, 1});
  const double g = 0.36298;
  expect_near(ColorJitter()(pixel), {0.2, 0.4, 0.6});
  expect_near(ColorJitter({.brightness = {2, 2}})(pixel), {0.4, 0.8, 1});
  expect_near(ColorJitter({.contrast = {0.5, 0.5}})(pixel), {0.1 + g / 2, 0.2 + g / 2, 0.3 + g / 2});
  expect_near(ColorJitter({.saturation = {0, 0}})(pixel), {g, g, g});
  expect_near(ColorJitter({.hue = {0.5, 0.5}})(pixel), {0.6, 0.4, 0.2});
  expect_near(ColorJitter({.hue = {1. / 3, 1. / 3}})(pixel), {0.6, 0.2, 0.4});
  expect_near(ColorJitter({.saturation = {0, 0}, .hue = {0.5, 0.5}})(pixel.narrow(0, 0, 1)), {0.2});
}

TEST(ColorJitter, DrawsFactorsAboutOne) {
  manual_seed(1);
  const ColorJitter jitter({.brightness = 0.4});
  double least = 1, most = 0;
  for (int i = 0; i < 300; ++i) {
    const double value = jitter(full({3, 1, 1}, 0.5)).to_vector<float>()[0];
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_NEAR(least, 0.3, 0.01);
  EXPECT_NEAR(most, 0.7, 0.01);
  EXPECT_GE(least, 0.3 - 1e-6);
  EXPECT_LE(most, 0.7 + 1e-6);
}

TEST(ColorJitter, RefusesWhatDoesNotFit) {
  EXPECT_THROW(ColorJitter({.brightness = -1}), InvalidArgument);
  EXPECT_THROW(ColorJitter({.hue = 0.6}), InvalidArgument);
  EXPECT_THROW(ColorJitter({.contrast = {2, 1}}), InvalidArgument);
  EXPECT_THROW(ColorJitter()(ones({2, 1, 1})), ShapeError);
  EXPECT_THROW(ColorJitter()(ones({3, 1, 1}, kUInt8)), DTypeError);
}

TEST(MapDataset, GivesAFunctionAsManyPartsAsItTakes) {
  const TensorDataset samples(numbered(2, 2).view({4, 1}), numbered(2, 2).view({4, 1}) + 10, tensor({5, 6, 7, 8}));
  const MapDataset both(samples,
                        [](const Tensor& image, const Tensor& mask) { return std::tuple(image * 2, mask * 3); });
  const auto [image, mask, label] = both.get(1);
  EXPECT_EQ(image.item<double>(), 2);
  EXPECT_EQ(mask.item<double>(), 33);
  EXPECT_EQ(label.item<std::int64_t>(), 6);
  const MapDataset joined(samples, [](const Tensor& a, const Tensor& b) { return a + b; });
  EXPECT_EQ(std::get<0>(joined.get(1)).item<double>(), 12);
  EXPECT_EQ(std::get<1>(joined.get(1)).item<std::int64_t>(), 6);
  const MapDataset all(samples, [](const Tensor& a, const Tensor& b, const Tensor& c) { return a + b + c; });
  EXPECT_EQ(all.get(1).item<double>(), 18);
  const MapDataset first(samples, [](const Tensor& a) { return -a; });
  EXPECT_EQ(std::get<0>(first.get(1)).item<double>(), -1);
}

}  // namespace
}  // namespace lockstep::data::transforms
