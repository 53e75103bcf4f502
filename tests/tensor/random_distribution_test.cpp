// Random tensors have the documented distributions, and are independent of each other. The seeds are fixed; each bound
// fails for at most one seed in a thousand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include <lockstep/tensor/random.h>

#include "tensor/statistics.h"

namespace lockstep {
namespace {

/// The Kolmogorov-Smirnov statistic: the largest distance between the distribution of the values and `cdf`, times
/// sqrt(n); above 1.95 once in a thousand. Up to 0.01 too large for a million values: it counts the values in kCells
/// cells, since sorting them takes a second under sanitizers, and adds a cell's width, which bounds the distance within
/// a cell.
template <class Cdf>
double kolmogorov_smirnov(const std::vector<double>& values, const Cdf& cdf) {
  constexpr double kCells = 100000;
  std::vector<int> counts(std::size_t(kCells) + 1);
  int* const count = counts.data();
  for (const double *value = values.data(), *const end = value + values.size(); value != end; ++value)
    ++count[std::size_t(std::min(kCells, std::max(0., cdf(*value) * kCells)))];
  const double n = double(values.size());
  double distance = 0, below = 0;
  for (std::size_t cell = 0; cell < counts.size(); ++cell) {
    distance = std::max(distance, std::abs(below / n - double(cell) / kCells));
    below += count[cell];
  }
  return (distance + 1 / kCells) * std::sqrt(n);
}

constexpr std::int64_t kSamples = 1000000;
constexpr double kRootSamples = 1000;

TEST(RandomDistribution, RandIsUniform) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    manual_seed(21);
    const auto values = values_of(rand({kSamples}, {.dtype = dtype}));
    EXPECT_LT(kolmogorov_smirnov(values, [](double x) { return x; }), 1.95) << dtype;
    const Moments m = moments_of(values);
    EXPECT_NEAR(m.mean, 0.5, 4 * std::sqrt(1. / 12) / kRootSamples);
    EXPECT_NEAR(m.variance, 1. / 12, 4 * std::sqrt(1. / 180) / kRootSamples);
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
    EXPECT_LT(*std::max_element(values.begin(), values.end()), 1);
  }
}

TEST(RandomDistribution, RandnIsNormal) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    manual_seed(22);
    const auto values = values_of(randn({kSamples}, {.dtype = dtype}));
    const auto cdf = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.)); };
    EXPECT_LT(kolmogorov_smirnov(values, cdf), 1.95) << dtype;
    const Moments m = moments_of(values);
    EXPECT_NEAR(m.mean, 0, 4 / kRootSamples);
    EXPECT_NEAR(m.variance, 1, 4 * std::sqrt(2.) / kRootSamples);
    EXPECT_NEAR(m.kurtosis, 3, 4 * std::sqrt(24.) / kRootSamples);
    const auto beyond = [](double x) { return std::abs(x) > 4; };  // 6.33e-5 of all
    EXPECT_NEAR(double(std::count_if(values.begin(), values.end(), beyond)), 63.3, 4 * std::sqrt(63.3));
  }
}

TEST(RandomDistribution, RandintTakesEachIntegerEquallyOften) {
  manual_seed(23);
  std::map<std::int64_t, double> counts;
  for (const std::int64_t value : randint(-3, 7, {100000}).to_vector<std::int64_t>()) ++counts[value];
  ASSERT_EQ(counts.size(), 10u);
  EXPECT_EQ(counts.begin()->first, -3);
  double chi_square = 0;
  for (const auto& [value, count] : counts) chi_square += (count - 10000) * (count - 10000) / 10000;
  EXPECT_LT(chi_square, 27.9);  // nine degrees of freedom, one in a thousand
}

TEST(RandomDistribution, RandpermGivesEachOrderEquallyOften) {
  manual_seed(24);
  std::map<std::vector<std::int64_t>, double> counts;
  for (int i = 0; i < 24000; ++i) ++counts[randperm(4).to_vector<std::int64_t>()];
  ASSERT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi_square, 49.7);  // 23 degrees of freedom, one in a thousand
}

double correlation(std::span<const double> a, std::span<const double> b) {
  const Moments of_a = moments_of(a), of_b = moments_of(b);
  double sum = 0;
  for (const double *x = a.data(), *y = b.data(), *const end = x + a.size(); x != end; ++x, ++y)
    sum += (*x - of_a.mean) * (*y - of_b.mean);
  return sum / double(a.size()) / std::sqrt(of_a.variance * of_b.variance);
}

TEST(RandomDistribution, StreamsSeedsAndNeighboursAreIndependent) {
  const auto numbers = [](std::uint64_t seed, std::uint64_t stream) {
    GeneratorState generator{.seed = seed, .stream = stream};
    const GeneratorGuard guard(generator);
    return values_of(randn({kSamples}));
  };
  const auto base = numbers(0, 0);
  const double bound = 4 / kRootSamples;
  EXPECT_LT(std::abs(correlation(base, numbers(0, 1))), bound);
  EXPECT_LT(std::abs(correlation(base, numbers(1, 0))), bound);
  for (const std::size_t lag : {1u, 2u, 3u, 4u, 256u}) {
    const auto early = std::span(base).first(base.size() - lag), late = std::span(base).subspan(lag);
    EXPECT_LT(std::abs(correlation(early, late)), bound) << lag;
  }
}

}  // namespace
}  // namespace lockstep
