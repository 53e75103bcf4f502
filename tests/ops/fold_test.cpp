// Windows as columns against loops over the definition; channel and pixel shuffles.
#include <lockstep/ops/fold.h>
#include <lockstep/ops/shuffle.h>

#include "ops/all_ops.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

struct ColumnCase {
  const char* name;
  Shape image, kernel, stride, padding, dilation;
  friend void PrintTo(const ColumnCase& c, std::ostream* out) { *out << c.name; }
};

const std::vector<ColumnCase> kColumnCases = {
    {"Plain", {2, 3, 5, 6}, {2, 3}, {1, 1}, {0, 0}, {1, 1}},
    {"Apart", {2, 2, 6, 6}, {2, 2}, {2, 2}, {0, 0}, {1, 1}},
    {"Gaps", {1, 2, 9, 8}, {2, 1}, {4, 3}, {0, 0}, {1, 1}},
    {"Padded", {2, 2, 4, 5}, {3, 2}, {1, 2}, {2, 1}, {1, 1}},
    {"Dilated", {1, 3, 7, 9}, {3, 2}, {2, 1}, {1, 2}, {2, 3}},
    {"MorePaddingThanImage", {1, 1, 2, 1}, {2, 3}, {1, 3}, {5, 4}, {1, 2}},
};

// The definition: element k of window o, or padding. visit(column, index in x or -1).
template <class Visit>
Shape for_each_column(const ColumnCase& c, const Visit& visit) {
  const auto count = [&](int d) {
    return (c.image[d + 2] + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
  };
  const std::int64_t rows = count(0), columns = count(1);
  std::int64_t at = 0;
  for (std::int64_t plane = 0; plane < c.image[0] * c.image[1]; ++plane)
    for (std::int64_t k = 0; k < c.kernel[0] * c.kernel[1]; ++k)
      for (std::int64_t o = 0; o < rows * columns; ++o) {
        const std::int64_t y = o / columns * c.stride[0] - c.padding[0] + k / c.kernel[1] * c.dilation[0];
        const std::int64_t x = o % columns * c.stride[1] - c.padding[1] + k % c.kernel[1] * c.dilation[1];
        const bool inside = y >= 0 && y < c.image[2] && x >= 0 && x < c.image[3];
        visit(at++, inside ? (plane * c.image[2] + y) * c.image[3] + x : -1);
      }
  return {c.image[0], c.image[1] * c.kernel[0] * c.kernel[1], rows * columns};
}

class Columns : public ::testing::TestWithParam<ColumnCase> {
 protected:
  const ColumnCase c = GetParam();
  const FoldOptions options = {.dilation = c.dilation, .padding = c.padding, .stride = c.stride};
  const TestDevices devices{1};
};

INSTANTIATE_TEST_SUITE_P(, Columns, ::testing::ValuesIn(kColumnCases),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(Columns, HoldTheWindows) {
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16, kInt64, kUInt8}) {
    const Tensor x = randint(1, 200, c.image).to(dtype);
    const std::vector<double> from = values(x);
    std::vector<double> expected;
    const Shape sizes = for_each_column(
        c, [&](std::int64_t, std::int64_t place) { expected.push_back(place < 0 ? 0 : from[std::size_t(place)]); });
    for (const Tensor& place : {x, x.cuda(), x.transpose(2, 3).contiguous().transpose(2, 3)}) {
      const Tensor got = unfold(place, c.kernel, options);
      EXPECT_EQ(got.sizes(), sizes);
      expect_values(got, expected);
    }
  }
}

TEST_P(Columns, AddUp) {
  Shape sizes = for_each_column(c, [](std::int64_t, std::int64_t) {});
  for (const DType dtype : {kFloat64, kFloat32, kFloat16}) {
    const Tensor x = randint(0, 9, sizes).to(dtype);  // small numbers, whose sums are exact in every dtype
    const std::vector<double> from = values(x);
    std::vector<double> expected(std::size_t(c.image.elements()));
    for_each_column(c, [&](std::int64_t column, std::int64_t place) {
      if (place >= 0) expected[std::size_t(place)] += from[std::size_t(column)];
    });
    for (const Tensor& place : {x, x.cuda(), x.transpose(1, 2).contiguous().transpose(1, 2)}) {
      const Tensor got = fold(place, {c.image[2], c.image[3]}, c.kernel, options);
      EXPECT_EQ(got.sizes(), c.image);
      expect_values(got, expected);
    }
  }
}

// Sums have one order, so the host and devices give the same bits.
TEST_P(Columns, AddUpToTheSameBitsOnEveryDevice) {
  const Tensor x = randn(for_each_column(c, [](std::int64_t, std::int64_t) {}));
  const Shape image = {c.image[2], c.image[3]};
  EXPECT_EQ(values(fold(x, image, c.kernel, options)), values(fold(x.cuda(), image, c.kernel, options)));
}

TEST(Fold, OfAnEmptyBatchIsEmpty) {
  EXPECT_EQ(unfold(ones({0, 3, 4, 4}), 2).sizes(), (Shape{0, 12, 9}));
  EXPECT_EQ(fold(ones({0, 12, 9}), {4, 4}, 2).sizes(), (Shape{0, 3, 4, 4}));
}

TEST(FoldErrors, NameWhatIsWrong) {
  const Tensor x = ones({1, 2, 4, 4}), columns = ones({1, 8, 9});
  EXPECT_EQ(message_of<ShapeError>([&] { unfold(x, 5); }),
            "[unfold] expected windows [5, 5] that fit the images, got [4, 4]");
  EXPECT_EQ(message_of<ShapeError>([&] {
              unfold(ones({4, 4}), 2);
            }),
            "[unfold] expected x [N, C, 2 sizes] or [C, 2 sizes], where only N may be 0, got [4, 4]");
  EXPECT_EQ(message_of<InvalidArgument>([&] { unfold(x, 2, {.stride = 0}); }),
            "[unfold] expected stride of at least 1, got 0");
  EXPECT_EQ(message_of<InvalidArgument>([&] { unfold(x, 2, {.padding = std::int64_t(1) << 40}); }),
            "[unfold] expected numbers below 2^31, got 1099511627776");
  EXPECT_EQ(message_of<ShapeError>([&] {
              fold(columns, {4, 5}, 2);
            }),
            "[fold] expected x [N, C * 4, 12] or without N, got [1, 8, 9]");
  EXPECT_EQ(message_of<ShapeError>([&] {
              fold(ones({1, 6, 9}), {4, 4}, 2);
            }),
            "[fold] expected x [N, C * 4, 9] or without N, got [1, 6, 9]");
  EXPECT_EQ(message_of<ShapeError>([&] { fold(columns, {}, 2); }),
            "[fold] expected an output_size of one to three sizes, got []");
  EXPECT_EQ(message_of<ShapeError>([&] {
              fold(columns, {0, 4}, 2);
            }),
            "[fold] expected an output_size from 1 to 2^31 - 1, got [0, 4]");
  EXPECT_EQ(message_of<DTypeError>([&] {
              fold(columns.to(kInt64), {4, 4}, 2);
            }),
            "[fold] expected a floating dtype, got int64");
}

TEST(Shuffle, MovesChannelsToPixelsAndBack) {
  const TestDevices devices(1);
  const Tensor x = arange(0, 8).view({1, 8, 1, 1});
  for (const Tensor& place : {x, x.cuda(), x.to(kUInt8), x.to(kBFloat16)}) {
    expect_values(pixel_shuffle(place, 2), {0, 1, 2, 3, 4, 5, 6, 7});
    EXPECT_EQ(pixel_shuffle(place, 2).sizes(), (Shape{1, 2, 2, 2}));
    expect_values(channel_shuffle(place, 2), {0, 4, 1, 5, 2, 6, 3, 7});
  }
  const Tensor images = randn({2, 3, 4, 8, 6}), last = images.transpose(2, 4);
  EXPECT_EQ(values(pixel_shuffle(pixel_unshuffle(images, 2), 2)), values(images));
  EXPECT_EQ(values(pixel_unshuffle(pixel_shuffle(images, 2), 2)), values(images));
  EXPECT_EQ(values(pixel_unshuffle(last, 2)), values(pixel_unshuffle(last.contiguous(), 2)));
  EXPECT_EQ(pixel_shuffle(ones({0, 4, 2, 2}), 2).sizes(), (Shape{0, 1, 4, 4}));
  EXPECT_EQ(channel_shuffle(ones({0, 4, 2}), 2).sizes(), (Shape{0, 4, 2}));
}

TEST(ShuffleErrors, NameWhatIsWrong) {
  EXPECT_EQ(message_of<ShapeError>([] {
              pixel_shuffle(ones({1, 6, 2, 2}), 2);
            }),
            "[pixel_shuffle] expected channels that are a multiple of 2 squared, got [1, 6, 2, 2]");
  EXPECT_EQ(message_of<ShapeError>([] {
              pixel_unshuffle(ones({1, 6, 2, 3}), 2);
            }),
            "[pixel_unshuffle] expected spatial sizes that are multiples of 2, got [1, 6, 2, 3]");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              pixel_shuffle(ones({1, 6, 2, 2}), 0);
            }),
            "[pixel_shuffle] expected a factor from 1 to 1073741824, got 0");
  EXPECT_EQ(message_of<ShapeError>([] {
              pixel_shuffle(ones({6, 2}), 1);
            }),
            "[pixel_shuffle] expected x of at least 3 dimensions, got [6, 2]");
  EXPECT_EQ(message_of<ShapeError>([] {
              channel_shuffle(ones({1, 6, 2}), 4);
            }),
            "[channel_shuffle] expected x [N, C, ...] whose channels are a multiple of 4, got [1, 6, 2]");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              channel_shuffle(ones({1, 6, 2}), 0);
            }),
            "[channel_shuffle] expected at least 1 group, got 0");
}

}  // namespace
}  // namespace lockstep
