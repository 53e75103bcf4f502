// Image transforms: values, randomness, and rejected arguments.
#include <lockstep/data/transforms.h>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include <lockstep/data/datasets.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::data::transforms {
namespace {

using Floats = std::vector<float>;

// Pixel (y, x) is 10 y + x + 1.
Tensor picture(std::int64_t height, std::int64_t width) {
  return (10 * arange(double(height)).view({1, height, 1}) + arange(double(width)) + 1).to(kFloat32);
}

TEST(ToFloat, DividesBytesBy255) {
  const Tensor image = ToFloat()(tensor({0, 51, 255}, {.dtype = kUInt8}));
  EXPECT_EQ(image.to_vector<float>(), (Floats{0, 51.0f / 255, 1}));
  EXPECT_EQ(ToFloat()(tensor({3.0, 4.0}, {.dtype = kFloat64})).to_vector<float>(), (Floats{3, 4}));
}

TEST(Normalize, ShiftsAndScalesEachChannel) {
  const Tensor image = Normalize({1, 2}, {2, 4})(ones({2, 1, 2}) * 3);
  EXPECT_EQ(image.to_vector<float>(), (Floats{1, 1, 0.25, 0.25}));
  EXPECT_EQ(Normalize({1}, {2})(ones({2, 1, 1})).to_vector<float>(), (Floats{0, 0}));
}

TEST(Normalize, RefusesWhatDoesNotFit) {
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              Normalize({1}, {1, 2});
            }),
            "[Normalize] expected as many numbers in std as in mean, at least one, got 2 and 1");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] { Normalize({1}, {0}); }),
            "[Normalize] expected numbers other than 0 in std, got 0");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              Normalize({1, 2}, {1, 2})(ones({3, 2, 2}));
            }),
            "[Normalize] expected an image of 2 channels, got [3, 2, 2]");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              Normalize({1}, {1})(ones({1, 2, 2}, {.dtype = kUInt8}));
            }),
            "[Normalize] expected a floating dtype, got uint8: use ToFloat first");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              Normalize({1}, {1})(ones({2, 2}));
            }),
            "[Normalize] expected an image [channels, height, width], got [2, 2]");
}

TEST(RandomCrop, GivesEveryWindow) {
  manual_seed(1);
  std::set<float> corners;
  const RandomCrop crop({2, 3});
  for (int i = 0; i < 200; ++i) {
    const Tensor window = crop(picture(3, 5));
    ASSERT_EQ(window.sizes(), (Shape{1, 2, 3}));
    const Floats pixels = window.to_vector<float>();
    EXPECT_EQ(pixels[5], pixels[0] + 12) << "one row and two columns further";
    corners.insert(pixels[0]);
  }
  EXPECT_EQ(corners, (std::set<float>{1, 2, 3, 11, 12, 13}));
}

TEST(RandomCrop, FillsThePadding) {
  manual_seed(1);
  std::set<Floats> windows;
  const RandomCrop crop({1, 1}, {.padding = 1, .fill = -1});
  for (int i = 0; i < 100; ++i) windows.insert(crop(ones({1, 1, 1})).to_vector<float>());
  EXPECT_EQ(windows, (std::set<Floats>{{-1}, {1}}));
}

TEST(RandomCrop, RefusesAnImageThatIsTooSmall) {
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              RandomCrop({4, 4}, {.padding = 1})(ones({1, 2, 1}));
            }),
            "[RandomCrop] expected an image of at least 4 by 4 with padding 1, got [1, 2, 1]");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              RandomCrop({0, 4});
            }),
            "[RandomCrop] expected a height and width of at least 1, got 0 and 4");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              RandomCrop({1, 1}, {.padding = -1});
            }),
            "[RandomCrop] expected padding >= 0, got -1");
}

// With 1, 2, 3 and 5 spare pixels, torchvision's window begins at 0, 1, 2 and 2.
TEST(CenterCrop, TakesTheMiddle) {
  EXPECT_EQ(CenterCrop({1, 2})(picture(4, 4)).to_vector<float>(), (Floats{22, 23}));
  EXPECT_EQ(CenterCrop({1, 1})(picture(6, 2)).to_vector<float>(), (Floats{21}));
  EXPECT_EQ(CenterCrop({2, 3})(picture(2, 3)).to_vector<float>(), (Floats{1, 2, 3, 11, 12, 13}));
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              CenterCrop({3, 1})(picture(2, 2));
            }),
            "[CenterCrop] expected an image of at least 3 by 1, got [1, 2, 2]");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              CenterCrop({0, 1});
            }),
            "[CenterCrop] expected a height and width of at least 1, got 0 and 1");
}

// A linear image stays linear: interpolation between pixel centres is exact.
TEST(Resize, KeepsAPlane) {
  const std::vector<float> half = Resize({2, 2})(picture(4, 4)).to_vector<float>();
  EXPECT_EQ(half, (Floats{6.5, 8.5, 26.5, 28.5}));
  EXPECT_EQ(Resize({4, 4})(picture(4, 4)).to_vector<float>(), picture(4, 4).to_vector<float>());
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              Resize({2, 2})(zeros({1, 4, 4}, {.dtype = kUInt8}));
            }),
            "[Resize] expected a floating dtype, got uint8: use ToFloat first");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] {
              Resize({1, 0});
            }),
            "[Resize] expected a height and width of at least 1, got 1 and 0");
}

TEST(RandomHorizontalFlip, MirrorsSome) {
  manual_seed(1);
  const Tensor image = picture(1, 3);
  EXPECT_EQ(RandomHorizontalFlip(1)(image).to_vector<float>(), (Floats{3, 2, 1}));
  EXPECT_EQ(RandomHorizontalFlip(0)(image).to_vector<float>(), (Floats{1, 2, 3}));
  int flipped = 0;
  for (int i = 0; i < 400; ++i) flipped += RandomHorizontalFlip()(image).to_vector<float>()[0] == 3;
  EXPECT_NEAR(flipped, 200, 50);
  EXPECT_EQ(testing::thrown<InvalidArgument>([] { RandomHorizontalFlip(1.5); }),
            "[RandomHorizontalFlip] expected a probability from 0 to 1, got 1.5");
}

TEST(Compose, AppliesOneAfterTheOtherOnAnyDevice) {
  const TestDevices devices(1);
  const Compose prepared(ToFloat(), RandomCrop({2, 2}), RandomHorizontalFlip(1), Normalize({0.5}, {0.5}));
  const Tensor image = tensor({0, 51, 102, 255}, {.dtype = kUInt8}).view({1, 2, 2});
  const Floats expected = {-0.6f, -1, 1, -0.2f};
  for (const Device device : {Device(), Device::cuda(0)}) {
    const Floats got = prepared(image.to(device)).cpu().to_vector<float>();
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
  }
}

// The random numbers depend on the loader's seed, not on the order of the workers.
TEST(Compose, IsDrawnAnewForEachSampleAndTheSameForEachNumberOfWorkers) {
  const TensorDataset images(rand({12, 3, 6, 6}), arange(12));
  const auto epoch = [&](int workers) {
    Floats all;
    DataLoader loader(MapDataset(images, Compose(RandomCrop({3, 3}, {.padding = 1}), RandomHorizontalFlip())),
                      {.batch_size = 5, .seed = 9, .num_workers = workers});
    for (auto [image, label] : loader)
      for (const float value : image.to_vector<float>()) all.push_back(value);
    return all;
  };
  EXPECT_EQ(epoch(0), epoch(3));
}

}  // namespace
}  // namespace lockstep::data::transforms
