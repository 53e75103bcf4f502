// Padding with elements of the tensor itself. (Padding with a number: layout_test.cpp.)
#include <lockstep/ops/layout.h>

#include "ops/all_ops.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

TEST(PadModes, RepeatWhatTheTensorHolds) {
  const TestDevices devices(1);
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  for (const DType dtype : {kInt64, kUInt8, kFloat16, kFloat64})
    for (const Tensor& place : {x.to(dtype), x.to(dtype).cuda(), x.to(dtype).t().contiguous().t()}) {
      expect_values(pad(place, {2, 1}, {.mode = PadMode::reflect}), {3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5});
      expect_values(pad(place, {0, 2}, {.mode = PadMode::replicate}), {1, 2, 3, 3, 3, 4, 5, 6, 6, 6});
      expect_values(pad(place, {3, 1}, {.mode = PadMode::circular}), {1, 2, 3, 1, 2, 3, 1, 4, 5, 6, 4, 5, 6, 4});
      expect_values(pad(place, {0, 0, 1, 2}, {.mode = PadMode::circular}),
                    {4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
      expect_values(pad(place, {-1, 1}, {.mode = PadMode::reflect}), {2, 3, 2, 5, 6, 5});
      expect_values(pad(place, {1, 0}, {.value = 7}), {7, 1, 2, 3, 7, 4, 5, 6});
    }
  const Tensor same = pad(x, {0, 0}, {.mode = PadMode::reflect});
  EXPECT_FALSE(same.is_same(x));
  EXPECT_EQ(values(same), values(x));
}

TEST(PadModes, OfAnEmptyBatchAreEmpty) {
  for (const PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular})
    EXPECT_EQ(pad(ones({0, 3, 4}), {1, 2}, {.mode = mode}).sizes(), (Shape{0, 3, 7}));
}

TEST(PadModes, KeepChannelsTogether) {
  const Tensor x = randn({2, 3, 4, 5}).permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  const Tensor y = pad(x, {1, 1, 2, 0}, {.mode = PadMode::reflect});
  EXPECT_EQ(y.strides()[1], 1);
  EXPECT_EQ(values(y), values(pad(x.contiguous(), {1, 1, 2, 0}, {.mode = PadMode::reflect})));
}

TEST(PadErrors, NameWhatIsWrong) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(
      message_of<ShapeError>([&] {
        pad(x, {3, 0}, {.mode = PadMode::reflect});
      }),
      "[pad] reflect mode can add at most size - 1 elements per side: dimension 1 of shape [2, 3] has size 3, got 3");
  EXPECT_EQ(
      message_of<ShapeError>([&] {
        pad(x, {0, 4}, {.mode = PadMode::circular});
      }),
      "[pad] circular mode can add at most size elements per side: dimension 1 of shape [2, 3] has size 3, got 4");
  EXPECT_EQ(message_of<ShapeError>([&] {
              pad(ones({2, 0}), {0, 1}, {.mode = PadMode::replicate});
            }),
            "[pad] replicate mode needs at least one element to repeat: dimension 1 of shape [2, 0] has size 0, got 1");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              pad(x, {1, 1}, {.mode = PadMode::circular, .value = 1});
            }),
            "[pad] a value needs PadMode::constant, got another mode with value 1");
}

}  // namespace
}  // namespace lockstep
