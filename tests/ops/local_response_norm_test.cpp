// Local response normalization beyond the reference vectors.
#include <lockstep/ops/normalization.h>

#include "ops/all_ops.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

TEST(LocalResponseNorm, RefusesWhatHasNoChannels) {
  EXPECT_EQ(message_of<ShapeError>([] {
              local_response_norm(ones({2, 3}), 2);
            }),
            "[local_response_norm] expected x of at least 3 dimensions, got [2, 3]");
  EXPECT_EQ(message_of<InvalidArgument>([] {
              local_response_norm(ones({2, 3, 4}), 0);
            }),
            "[local_response_norm] expected a size from 1 to 2^31 - 1, got 0");
  EXPECT_EQ(message_of<DTypeError>([] {
              local_response_norm(ones({2, 3, 4}).to(kInt32), 1);
            }),
            "[local_response_norm] expected a floating dtype, got int32");
  EXPECT_EQ(local_response_norm(ones({0, 3, 4}), 2).sizes(), (Shape{0, 3, 4}));
}

TEST(LocalResponseNorm, IsTheSameInEveryLayout) {
  const TestDevices devices(1);
  const Tensor x = random_doubles({2, 5, 3, 4});
  const auto norm_of = [](const Tensor& v) { return local_response_norm(v, 3, {.alpha = 0.7}); };
  for (const Tensor& place : {x, x.cuda()}) {
    const Tensor last = place.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
    EXPECT_LT(largest(norm_of(last).cpu() - norm_of(x)), 1e-14);
    EXPECT_EQ(norm_of(last).strides()[1], 1);
  }
}

}  // namespace
}  // namespace lockstep
