#include <lockstep/core/elementary.h>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/core/vectorized.h>

namespace lockstep {
namespace {

// The number of floats from x to y.
std::int64_t distance(float x, float y) {
  const auto place = [](float value) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    return std::int64_t(bits < 0 ? std::numeric_limits<std::int32_t>::min() - bits : bits);
  };
  return std::abs(place(x) - place(y));
}

// The greatest distance of f from the C library's double function `exact`, over floats of all magnitudes from `from` to
// `to`.
template <class F, class Exact>
std::int64_t worst(float from, float to, const F& f, const Exact& exact) {
  std::vector<float> x, y;
  for (std::int64_t bits = 0; bits < (std::int64_t(1) << 32); bits += 4001) {
    const float value = std::bit_cast<float>(std::uint32_t(bits));
    if (value >= from && value <= to) x.push_back(value);
  }
  y.resize(x.size());
  float *const result = y.data(), *const argument = x.data();
  const auto count = std::int64_t(x.size());
  vectorized([=] {
    LOCKSTEP_IVDEP
    for (std::int64_t i = 0; i < count; ++i) result[i] = f(argument[i]);
  });
  std::int64_t most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, distance(y[i], float(exact(double(x[i])))));
  return most;
}

constexpr float kUnbounded = std::numeric_limits<float>::infinity();

TEST(Elementary, FloatsAreExactToAFewUnitsInTheLastPlace) {
  const auto d = [](auto f) { return f; };
  EXPECT_LE(
      worst(
          -kUnbounded, kUnbounded, [](float x) { return elementary::exp(x); }, d([](double x) { return std::exp(x); })),
      2);
  EXPECT_LE(worst(
                -kUnbounded, kUnbounded, [](float x) { return elementary::tanh(x); },
                d([](double x) { return std::tanh(x); })),
            6);
  EXPECT_LE(worst(
                0, kUnbounded, [](float x) { return elementary::log(x); }, d([](double x) { return std::log(x); })),
            4);
  EXPECT_LE(worst(
                0, kUnbounded, [](float x) { return elementary::log2(x); }, d([](double x) { return std::log2(x); })),
            4);
  EXPECT_LE(worst(
                0, kUnbounded, [](float x) { return elementary::log10(x); }, d([](double x) { return std::log10(x); })),
            4);
  EXPECT_LE(
      worst(
          -1, kUnbounded, [](float x) { return elementary::log1p(x); }, d([](double x) { return std::log1p(x); })),
      4);
  EXPECT_LE(worst(
                -kUnbounded, kUnbounded, [](float x) { return elementary::expm1(x); },
                d([](double x) { return std::expm1(x); })),
            4);
  EXPECT_LE(
      worst(
          -kUnbounded, kUnbounded, [](float x) { return elementary::erf(x); }, d([](double x) { return std::erf(x); })),
      4);
  EXPECT_LE(worst(
                -1e3f, 1e3f, [](float x) { return elementary::sin(x); }, d([](double x) { return std::sin(x); })),
            4);
  EXPECT_LE(worst(
                -1e3f, 1e3f, [](float x) { return elementary::cos(x); }, d([](double x) { return std::cos(x); })),
            4);
}

TEST(Elementary, WhatIsNoNumberStaysSo) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(elementary::exp(nan)));
  EXPECT_TRUE(std::isnan(elementary::tanh(nan)));
  EXPECT_TRUE(std::isnan(elementary::sigmoid(nan)));
}

TEST(Elementary, EndsOfTheRange) {
  EXPECT_EQ(elementary::exp(-kUnbounded), 0);
  EXPECT_EQ(elementary::exp(kUnbounded), kUnbounded);
  EXPECT_EQ(elementary::exp(0.0f), 1);
  EXPECT_GT(elementary::exp(-100.0f), 0);  // a subnormal number
  EXPECT_EQ(elementary::sigmoid(-kUnbounded), 0);
  EXPECT_EQ(elementary::sigmoid(kUnbounded), 1);
}

// Runs in a process of its own: a process chooses its instruction set once.
void expect_refused(const char* choice, const char* message) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("LOCKSTEP_CPU", choice, 1);
        try {
          instruction_set();
        } catch (const InvalidArgument& error) {
          std::fputs(error.what(), stderr);
          std::exit(3);
        }
        std::exit(0);
      },
      testing::ExitedWithCode(3), message);
}

TEST(InstructionSet, AnUnknownNameIsRefused) {
  expect_refused("sse", "LOCKSTEP_CPU. expected plain, avx2 or avx512.*got \"sse\"");
}

TEST(InstructionSet, PlainIsAlwaysThere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("LOCKSTEP_CPU", "plain", 1);
        std::exit(instruction_set() == InstructionSet::plain ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace lockstep
