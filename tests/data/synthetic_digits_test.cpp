// Generated digits: the format of a sample, and that a simple classifier can tell the digits apart.
#include <lockstep/data/synthetic_digits.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <lockstep/data/dataset.h>
#include <lockstep/data/loader.h>

#include "support/thrown.h"

namespace lockstep::data {
namespace {

static_assert(Dataset<SyntheticDigits>);

using Pixels = std::vector<float>;

TEST(SyntheticDigits, GivesAnImageAndItsDigit) {
  const SyntheticDigits digits(20, {.seed = 3, .image_size = 20});
  EXPECT_EQ(digits.size(), 20);
  for (std::int64_t i = 0; i < digits.size(); ++i) {
    const auto [image, digit] = digits.get(i);
    EXPECT_EQ(image.sizes(), (Shape{1, 20, 20}));
    EXPECT_EQ(image.dtype(), kFloat32);
    EXPECT_TRUE(digit >= 0 && digit <= 9) << digit;
    const Pixels pixels = image.to_vector<float>();
    EXPECT_GE(std::ranges::min(pixels), 0);
    EXPECT_LE(std::ranges::max(pixels), 1);
    EXPECT_GT(std::ranges::max(pixels), 0.5);
  }
}

TEST(SyntheticDigits, AreBatchedAsImagesAndInt64Labels) {
  DataLoader loader(SyntheticDigits(10), {.batch_size = 4, .num_workers = 2});
  const auto [images, labels] = *loader.begin();
  EXPECT_EQ(images.sizes(), (Shape{4, 1, 28, 28}));
  EXPECT_EQ(labels.sizes(), (Shape{4}));
  EXPECT_EQ(labels.dtype(), kInt64);
}

TEST(SyntheticDigits, FollowFromTheSeedAndTheIndex) {
  const auto pixels = [](std::uint64_t seed, std::int64_t index) {
    return std::get<0>(SyntheticDigits(5, {.seed = seed}).get(index)).to_vector<float>();
  };
  EXPECT_EQ(pixels(1, 2), pixels(1, 2));
  EXPECT_NE(pixels(1, 2), pixels(1, 3));
  EXPECT_NE(pixels(1, 2), pixels(2, 2));
}

TEST(SyntheticDigits, WithoutNoiseHaveABlackGround) {
  const auto pixels = std::get<0>(SyntheticDigits(1, {.noise = 0}).get(0)).to_vector<float>();
  EXPECT_GT(std::ranges::count(pixels, 0.0f), 400);
}

// The nearest class mean, from some images, is right for most others; chance would give a tenth.
TEST(SyntheticDigits, CanBeToldApart) {
  const SyntheticDigits digits(1500, {.seed = 5});
  std::vector<std::vector<double>> mean(10, std::vector<double>(28 * 28));
  std::vector<int> count(10);
  int right = 0;
  for (std::int64_t i = 0; i < digits.size(); ++i) {
    const auto [image, digit] = digits.get(i);
    const Pixels pixels = image.to_vector<float>();
    if (i < 1000) {
      ++count[std::size_t(digit)];
      for (std::size_t p = 0; p < pixels.size(); ++p) mean[std::size_t(digit)][p] += double(pixels[p]);
      continue;
    }
    std::vector<double> distance(10);
    for (std::size_t d = 0; d < 10; ++d)
      for (std::size_t p = 0; p < pixels.size(); ++p) {
        const double difference = double(pixels[p]) - mean[d][p] / count[d];
        distance[d] += difference * difference;
      }
    right += std::ranges::min_element(distance) - distance.begin() == digit;
  }
  for (const int images : count) EXPECT_GT(images, 60);
  EXPECT_GT(right, 250) << "of 500";
}

TEST(SyntheticDigits, RefuseWhatCannotBeDrawn) {
  EXPECT_EQ(testing::thrown<InvalidArgument>([] { SyntheticDigits(-1); }),
            "[SyntheticDigits] expected a count >= 0, got -1");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] { SyntheticDigits(1, {.image_size = 7}); }),
            "[SyntheticDigits] expected an image_size from 8 to 4096, got 7");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] { SyntheticDigits(1, {.noise = -1}); }),
            "[SyntheticDigits] expected noise >= 0, got -1");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] { SyntheticDigits(1).get(1); }),
            "[SyntheticDigits] expected an index in [0, 1), got 1");
}

}  // namespace
}  // namespace lockstep::data
