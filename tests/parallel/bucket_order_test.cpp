// Buckets are reduced in one order, whatever the order in which their gradients arrive.
#include <gtest/gtest.h>

#include <cstddef>

#include <lockstep/core/error.h>

#include "parallel/mlp_job.h"

namespace lockstep {
namespace {

// Runs its layers in the reverse order of members(): backward reaches `a` first.
struct Crosswise : nn::Module<Crosswise> {
  nn::Linear a{64, 64, {.bias = false}}, b{48, 64, {.bias = false}};
  auto members() { return nn::members("a", a, "b", b); }
  Tensor forward(const Tensor& x) { return a(b(x)); }
};

constexpr std::size_t kBytesOfA = 64 * 64 * sizeof(float), kBytesOfB = 48 * 64 * sizeof(float);

// One bucket for each weight. The first layout follows members() from the last to the first, b then a, although
// backward completes a's bucket long before b's. The rebuilt layout follows backward: a, then b.
TEST(BucketOrder, IsTheLayoutsAndNotThatOfArrivals) {
  SimulatedDevices devices({.count = 2});
  DataParallel model(Crosswise(), {.buckets = {.first_bytes = 1, .bytes = 1}});
  const Tensor input = randn({32, 48}, {.device = "cuda:0"});
  const auto bytes_of_the_first_sum = [&]() -> std::size_t {
    devices.fault().fail_collective({.nth = 1});
    try {
      sum(model(input)).backward();
      for (const Device& device : try_all_gpus()) synchronize(device);
    } catch (const CollectiveError& error) {
      devices.fault().clear();
      model.zero_grad();
      return error.bytes;
    }
    return 0;
  };
  EXPECT_EQ(bytes_of_the_first_sum(), kBytesOfB);
  EXPECT_EQ(bytes_of_the_first_sum(), kBytesOfA);
}

}  // namespace
}  // namespace lockstep
