// Products with a packed matrix.
#include "cpu/products/panels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace lockstep::host {
namespace {

constexpr std::int64_t kMaxRows = 9, kPitchMore = 3;

std::vector<float> random_floats(std::int64_t count) {
  static std::mt19937 random(7);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = float(std::int32_t(random())) * 0x1p-31f;
  return values;
}

// The product of a [kMaxRows, k] and b [k, n], stored row-major or transposed, computed `rows` rows at a time.
struct Product {
  std::int64_t k, n;
  bool transposed, adds;
  std::vector<float> a = random_floats(kMaxRows * (k + kPitchMore)), b = random_floats(k * n),
                     start = random_floats(kMaxRows * (n + kPitchMore));

  float element(std::int64_t i, std::int64_t j) const { return b[std::size_t(transposed ? j * k + i : i * n + j)]; }

  std::vector<float> by(std::int64_t rows) const {
    std::vector<float> packed(Panels::bytes(k, n) / sizeof(float)), c = start;
    const PanelSource source = {b.data(), k, n, transposed ? 1 : n, transposed ? k : 1};
    const std::int64_t middle = Panels::count(n) / 2;
    pack_panels(source, middle, Panels::count(n), packed.data());
    pack_panels(source, 0, middle, packed.data());
    for (std::int64_t first = 0; first < kMaxRows; first += rows)
      multiply_panels(std::min(rows, kMaxRows - first), a.data() + first * (k + kPitchMore), k + kPitchMore,
                      {packed.data(), k, n}, c.data() + first * (n + kPitchMore), n + kPitchMore, adds);
    return c;
  }
};

TEST(PanelProduct, IsTheSumOfProducts) {
  for (const std::int64_t k : {0, 1, 5, 256, 300, 513})
    for (const std::int64_t n : {1, 8, 23, 24, 25, 50})
      for (const bool transposed : {false, true})
        for (const bool adds : {false, true}) {
          const Product product = {k, n, transposed, adds};
          const std::vector<float> got = product.by(kMaxRows);
          for (std::int64_t i = 0; i < kMaxRows; ++i)
            for (std::int64_t j = 0; j < n + kPitchMore; ++j) {
              const auto at = std::size_t(i * (n + kPitchMore) + j);
              if (j >= n || (k == 0 && adds)) {
                EXPECT_EQ(got[at], product.start[at]) << "beyond the row";
                continue;
              }
              double sum = adds ? double(product.start[at]) : 0;
              for (std::int64_t l = 0; l < k; ++l)
                sum += double(product.a[std::size_t(i * (k + kPitchMore) + l)]) * double(product.element(l, j));
              ASSERT_NEAR(got[at], sum, 1e-6 * (1 + std::sqrt(double(k)) * 4)) << k << ' ' << n << ' ' << i << ' ' << j;
            }
        }
}

TEST(PanelProduct, OfARowDoesNotDependOnTheOthers) {
  const Product product = {300, 50, true, true};
  const std::vector<float> all = product.by(kMaxRows);
  for (const std::int64_t rows : {1, 2, 3, 4, 7}) EXPECT_EQ(product.by(rows), all) << rows;
}

}  // namespace
}  // namespace lockstep::host
