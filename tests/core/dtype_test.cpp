// The 16-bit floating-point types against their definitions, for every bit pattern, and the rules of promotion.
#include <lockstep/core/dtype.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <sstream>
#include <vector>

namespace lockstep {
namespace {

constexpr std::uint32_t kPatterns = 1u << 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The number by the definition of IEEE binary16: 1 sign bit, 5 exponent bits with bias 15, 10 mantissa bits.
double half_by_definition(std::uint32_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = int(bits >> 10) & 31;
  const double mantissa = bits & 1023;
  if (exponent == 31) return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * kInfinity;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

bool same(float a, double b) {
  return std::isnan(b) ? std::isnan(a) : double(a) == b && std::signbit(a) == std::signbit(b);
}

TEST(Half, IsEveryBitPatternsNumber) {
  for (std::uint32_t bits = 0; bits < kPatterns; ++bits)
    ASSERT_TRUE(same(float(Half::from_bits(std::uint16_t(bits))), half_by_definition(bits))) << bits;
}

TEST(Half, SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < kPatterns; ++bits) {
    const Half half = Half::from_bits(std::uint16_t(bits));
    if (std::isnan(float(half)))
      ASSERT_TRUE(std::isnan(float(Half(float(half))))) << bits;
    else
      ASSERT_EQ(Half(float(half)).bits(), bits);
  }
}

// Floats at and next to each number of the type and each midpoint between neighbours, and many random ones.
std::vector<float> floats_to_round(double (*number)(std::uint32_t), std::uint32_t positive_numbers) {
  std::vector<float> floats;
  for (std::uint32_t bits = 0; bits + 1 < positive_numbers; ++bits) {
    const double low = number(bits), high = number(bits + 1);
    for (const double at : {low, low / 2 + high / 2})
      if (std::isfinite(at)) {
        const float middle = float(at);
        for (const float f : {std::nextafter(middle, 0.f), middle, std::nextafter(middle, kInfinity)}) {
          floats.push_back(f);
          floats.push_back(-f);
        }
      }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) floats.push_back(std::bit_cast<float>(std::uint32_t(random())));
  for (const float f :
       {65504.f, 65519.996f, 65520.f, 65536.f, 3e38f, kInfinity, 1e-45f, 2.98e-8f, 2.9802322e-8f, 3e-8f}) {
    floats.push_back(f);
    floats.push_back(-f);
  }
  return floats;
}

TEST(Half, KeepsTheSignOfNaN) {
  EXPECT_TRUE(std::signbit(float(Half(-std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_FALSE(std::signbit(float(Half(std::numeric_limits<float>::quiet_NaN()))));
}

double bfloat_by_definition(std::uint32_t bits) { return std::bit_cast<float>(bits << 16); }

TEST(BFloat16, IsTheUpperHalfOfAFloat) {
  for (std::uint32_t bits = 0; bits < kPatterns; ++bits) {
    const BFloat16 number = BFloat16::from_bits(std::uint16_t(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(float(number)), bits << 16);
    if (std::isnan(float(number)))
      ASSERT_TRUE(std::isnan(float(BFloat16(float(number))))) << bits;
    else
      ASSERT_EQ(BFloat16(float(number)).bits(), bits);
  }
}

TEST(BFloat16, RoundsToTheNearestAndToEvenInTheMiddle) {
  for (const float f : floats_to_round(&bfloat_by_definition, 0x7f80)) {
    if (!std::isfinite(f)) {
      ASSERT_TRUE(same(float(BFloat16(f)), f));
      continue;
    }
    const std::uint32_t low = std::bit_cast<std::uint32_t>(std::abs(f)) >> 16;
    const auto magnitude = [](std::uint32_t bits) { return bits == 0x7f80 ? 0x1p128 : bfloat_by_definition(bits); };
    const double below = std::abs(double(f)) - magnitude(low), above = magnitude(low + 1) - std::abs(double(f));
    const std::uint32_t nearest = below < above || (below == above && low % 2 == 0) ? low : low + 1;
    ASSERT_EQ(BFloat16(f).bits(), nearest | (std::signbit(f) ? 0x8000u : 0u)) << f;
  }
}

#ifdef __FLT16_MAX__  // the compiler has the type _Float16: GCC 12 does, clang 14 does not
TEST(Half, RoundsFloatsAsTheCompilersOwnType) {
  for (const float f : floats_to_round(&half_by_definition, 0x7c00)) {
    const auto expected = std::bit_cast<std::uint16_t>(_Float16(f));
    if (std::isnan(f))
      ASSERT_TRUE(std::isnan(float(Half(f))));
    else
      ASSERT_EQ(Half(f).bits(), expected) << f;
  }
}
#endif

constexpr std::array kAll = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

TEST(Promote, GivesTheCommonTypeOfEveryPair) {
  constexpr auto b = kBool, u = kUInt8, i = kInt32, l = kInt64, h = kFloat16, w = kBFloat16, f = kFloat32, d = kFloat64;
  const DType table[8][8] = {{b, u, i, l, h, w, f, d}, {u, u, i, l, h, w, f, d}, {i, i, i, l, h, w, f, d},
                             {l, l, l, l, h, w, f, d}, {h, h, h, h, h, f, f, d}, {w, w, w, w, f, w, f, d},
                             {f, f, f, f, f, f, f, d}, {d, d, d, d, d, d, d, d}};
  for (std::size_t x = 0; x < 8; ++x)
    for (std::size_t y = 0; y < 8; ++y)
      EXPECT_EQ(promote(kAll[x], kAll[y]), table[x][y]) << kAll[x] << " with " << kAll[y];
}

TEST(DType, KnowsItsSizeNameAndKind) {
  EXPECT_EQ(size_of(kBool), sizeof(bool));
  EXPECT_EQ(size_of(kFloat16), sizeof(Half));
  EXPECT_EQ(size_of(kBFloat16), sizeof(BFloat16));
  EXPECT_EQ(size_of(kInt64), sizeof(std::int64_t));
  std::ostringstream names;
  for (const DType dtype : kAll) names << dtype << (is_floating(dtype) ? "* " : " ");
  EXPECT_EQ(names.str(), "bool uint8 int32 int64 float16* bfloat16* float32* float64* ");
}

}  // namespace
}  // namespace lockstep
