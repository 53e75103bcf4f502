#include <lockstep/core/float16_rows.h>

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace lockstep {
namespace {

template <class T>
class Float16Rows : public testing::Test {};
using Types = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(Float16Rows, Types);

TYPED_TEST(Float16Rows, EveryNumberWidensToTheBitsThatOneAloneHas) {
  for (const std::int64_t step : {1, 3}) {
    std::vector<TypeParam> from(std::size_t(65536 * step));
    for (std::uint32_t bits = 0; bits < 65536; ++bits)
      from[std::size_t(bits) * std::size_t(step)] = TypeParam::from_bits(std::uint16_t(bits));
    std::vector<float> to(65536);
    widen(from.data(), step, 65536, to.data());
    for (std::uint32_t bits = 0; bits < 65536; ++bits)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(to[bits]),
                std::bit_cast<std::uint32_t>(float(TypeParam::from_bits(std::uint16_t(bits)))))
          << bits;
  }
}

TYPED_TEST(Float16Rows, NumbersNarrowToTheBitsThatOneAloneHas) {
  std::vector<float> from;
  for (std::uint64_t bits = 0; bits < (std::uint64_t(1) << 32); bits += 5003)  // numbers, infinities, NaNs
    from.push_back(std::bit_cast<float>(std::uint32_t(bits)));
  for (const std::int64_t step : {1, 2}) {
    std::vector<TypeParam> to(from.size() * std::size_t(step));
    narrow(from.data(), std::int64_t(from.size()), to.data(), step);
    for (std::size_t i = 0; i < from.size(); ++i)
      ASSERT_EQ(to[i * std::size_t(step)].bits(), TypeParam(from[i]).bits())
          << std::bit_cast<std::uint32_t>(from[i]);
  }
}

TYPED_TEST(Float16Rows, WritesNoMoreThanIsAskedFor) {
  for (std::int64_t count = 0; count < 40; ++count) {
    const std::vector<TypeParam> from(40, TypeParam(1.5f));
    std::vector<float> wide(41, -1.0f);
    widen(from.data(), 1, count, wide.data());
    std::vector<TypeParam> back(41, TypeParam(-1.0f));
    narrow(wide.data(), count, back.data(), 1);
    for (std::size_t i = 0; i < 41; ++i) {
      EXPECT_EQ(wide[i], std::int64_t(i) < count ? 1.5f : -1.0f);
      EXPECT_EQ(float(back[i]), std::int64_t(i) < count ? 1.5f : -1.0f);
    }
  }
}

}  // namespace
}  // namespace lockstep
