// The generator against published known answers, and its conversions against wider arithmetic.
#include "tensor/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>

#include "tensor/normal.h"

namespace lockstep {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words words_of(const PhiloxBlock& block) { return std::to_array(block.words); }

// kat_vectors of Random123, "philox4x32 10".
TEST(Philox, MatchesThePublishedAnswers) {
  const std::uint32_t ones = ~0u;
  EXPECT_EQ(words_of(philox({{0, 0, 0, 0}}, {{0, 0}})), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words_of(philox({{ones, ones, ones, ones}}, {{ones, ones}})),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words_of(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}})),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, CountsWithTheIndexBelowTheStream) {
  EXPECT_EQ(words_of(philox_counter(0x1111111122222222, 0x3333333344444444)),
            (Words{0x44444444, 0x33333333, 0x22222222, 0x11111111}));
  const PhiloxKey key = philox_key(0x5555555566666666);
  EXPECT_EQ(key.words[0], 0x66666666u);
  EXPECT_EQ(key.words[1], 0x55555555u);
}

TEST(Philox, TakesTheEarlierWordAsTheLowerHalf) {
  const PhiloxBlock block{{1, 2, 3, 4}};
  EXPECT_EQ(block.wide(0), 0x0000000200000001u);
  EXPECT_EQ(block.wide(1), 0x0000000400000003u);
}

TEST(Philox, MakesUniformNumbersBelowOne) {
  EXPECT_EQ(to_uniform(std::uint32_t(0)), 0.0f);
  EXPECT_EQ(to_uniform(~std::uint32_t(0)), std::nextafter(1.0f, 0.0f));
  EXPECT_EQ(to_uniform(std::uint32_t(0x80000000u)), 0.5f);
  EXPECT_EQ(to_uniform(std::uint64_t(0)), 0.0);
  EXPECT_EQ(to_uniform(~std::uint64_t(0)), std::nextafter(1.0, 0.0));
  EXPECT_EQ(to_uniform(std::uint64_t(1) << 63), 0.5);
}

TEST(Philox, ScalesToARangeAsA128BitProductDoes) {
  __extension__ using Wide = unsigned __int128;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const PhiloxBlock block = philox(philox_counter(0, i), philox_key(0));
    const std::uint64_t word = block.wide(0), range = block.wide(1) >> (i % 64);
    ASSERT_EQ(to_range(word, range), std::uint64_t(Wide(word) * range >> 64));
  }
  EXPECT_EQ(to_range(~std::uint64_t(0), ~std::uint64_t(0)), ~std::uint64_t(0) - 1);
}

// Compares with the definition, computed in long double from the same rounded number in (0, 1].
template <class T, class Word>
void check_normal(Word a, Word b, double tolerance) {
  const bool wide = sizeof(T) == 8;
  const T u = T(wide ? ((a >> 11) + 0.5L) * 0x1p-53L : ((a >> 1) + 0.5L) * 0x1p-31L);
  const long double radius = std::sqrt(-2 * std::log(static_cast<long double>(u)));
  const long double angle = 2 * std::numbers::pi_v<long double> * b * (wide ? 0x1p-64L : 0x1p-32L);
  const NormalPair<T> pair = to_normal(a, b);
  ASSERT_NEAR(pair.first, double(radius * std::cos(angle)), tolerance) << a << ' ' << b;
  ASSERT_NEAR(pair.second, double(radius * std::sin(angle)), tolerance) << a << ' ' << b;
}

TEST(Normal, IsBoxAndMullersTransform) {
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const PhiloxBlock block = philox(philox_counter(1, i), philox_key(2));
    check_normal<float>(block.words[0], block.words[1], 1e-6);
    check_normal<double>(block.wide(0), block.wide(1), 1e-14);
  }
}

TEST(Normal, IsFiniteForEveryWord) {
  for (const std::uint32_t a : {0u, 1u, 2u, 0x7fffffffu, 0x80000000u, 0xfffffffeu, 0xffffffffu})
    for (const std::uint32_t b : {0u, 0x1fffffffu, 0x20000000u, 0x40000000u, 0x7fffffffu, 0xe0000000u, 0xffffffffu}) {
      const NormalPair<float> narrow = to_normal(a, b);
      const NormalPair<double> wide = to_normal(std::uint64_t(a) << 32 | a, std::uint64_t(b) << 32 | b);
      EXPECT_LE(std::hypot(narrow.first, narrow.second), 6.67f) << a << ' ' << b;  // sqrt(2 log 2^32)
      EXPECT_LE(std::hypot(wide.first, wide.second), 8.66) << a << ' ' << b;       // sqrt(2 log 2^54)
    }
  EXPECT_NEAR(to_normal(0u, 0u).first, 6.6604, 1e-4);
}

// The bits that every compiler, processor and GPU must give, computed in rational arithmetic with each step rounded.
TEST(Normal, KeepsItsBits) {
  const PhiloxBlock first{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}};
  const PhiloxBlock second{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}};
  const auto narrow = [](std::uint32_t a, std::uint32_t b) {
    const NormalPair<float> pair = to_normal(a, b);
    return std::pair(std::bit_cast<std::uint32_t>(pair.first), std::bit_cast<std::uint32_t>(pair.second));
  };
  const auto wide = [](const PhiloxBlock& block) {
    const NormalPair<double> pair = to_normal(block.wide(0), block.wide(1));
    return std::pair(std::bit_cast<std::uint64_t>(pair.first), std::bit_cast<std::uint64_t>(pair.second));
  };
  EXPECT_EQ(narrow(first.words[0], first.words[1]), std::pair(0x3f7dbb33u, 0xbf6cb6b0u));
  EXPECT_EQ(narrow(first.words[2], first.words[3]), std::pair(0xbf1e1b9fu, 0xbef6d1b2u));
  EXPECT_EQ(narrow(second.words[0], second.words[1]), std::pair(0xbd94a53cu, 0x3fd442ceu));
  EXPECT_EQ(narrow(second.words[2], second.words[3]), std::pair(0xbf5b90c8u, 0x3ed89bc9u));
  EXPECT_EQ(wide(first), std::pair(0xbfd973628c131c02u, 0xbfd3dd84ff91e70cu));
  EXPECT_EQ(wide(second), std::pair(0xbff7a7bdeaf30372u, 0x3fe7562f6eee22bdu));
}

}  // namespace
}  // namespace lockstep
