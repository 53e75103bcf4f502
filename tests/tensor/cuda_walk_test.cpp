// Walk and Divisor, with which CUDA kernels compute offsets: ordinary C++, so tested on the host.
#include <lockstep/kernels/cuda/walk.h>

#include <gtest/gtest.h>

#include <random>

namespace lockstep::gpu {
namespace {

constexpr std::int64_t kBillions = std::int64_t(1) << 31;

TEST(CudaDivisor, DividesAsDivisionDoes) {
  std::mt19937_64 bits(1);
  std::vector<std::int64_t> divisors = {
      1, 2, 3, 7, 64, 641, 65535, 65536, kBillions - 1, kBillions, kBillions + 1, std::int64_t(1) << 40};
  for (int i = 0; i < 200; ++i) divisors.push_back(std::int64_t(bits() % std::uint64_t(kBillions)) + 1);
  for (const std::int64_t divisor : divisors) {
    std::vector<std::int64_t> dividends = {
        0, 1, divisor - 1, divisor, divisor + 1, kBillions - 1, kBillions, 5 * divisor - 1, 5 * divisor};
    for (int i = 0; i < 200; ++i) dividends.push_back(std::int64_t(bits() % std::uint64_t(kBillions)));
    for (const std::int64_t n : dividends)
      ASSERT_EQ(Divisor(divisor).quotient(n), n / divisor) << n << " / " << divisor;
  }
}

TEST(CudaWalk, FindsThePlacesThatTheHostFinds) {
  Geometry<2> geometry;
  geometry.sizes = {3, 1, 5, 2, 7};
  geometry.strides = {Shape{70, 70, 14, 7, 1}, Shape{0, 3, -2, 100, 11}};
  geometry.numel = geometry.sizes.elements();
  const Walk<2> walk(geometry);
  for (std::int64_t i = 0; i < geometry.numel; ++i) ASSERT_EQ(walk(i), offsets_at(geometry, i)) << i;
}

TEST(CudaWalk, OfNoDimensionsIsAtItsStart) { EXPECT_EQ(Walk<1>(Geometry<1>())(0)[0], 0); }

}  // namespace
}  // namespace lockstep::gpu
