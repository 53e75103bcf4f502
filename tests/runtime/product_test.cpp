// Matrix products on the host: right with every processor's vector instructions, and the same bits for every division.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <lockstep/runtime/threads.h>

#include "cpu/parallel.h"
#include "cpu/products/blocked_product.h"

namespace lockstep::host {
namespace {

constexpr std::int64_t kRowGap = 3;

constexpr std::size_t kDrawn = 65'537;  // a prime, so that no matrix repeats another one's rows

// Random numbers, and the same numbers as doubles; drawn once, because in unoptimized and sanitized builds drawing
// takes longer than multiplying.
template <class T>
struct Drawn {
  std::vector<T> values;
  std::vector<double> wide;

  Drawn() {
    std::mt19937 random(11);
    for (std::size_t i = 0; i < kDrawn; ++i) values.push_back(T(float(std::int32_t(random())) * 0x1p-31f));
    wide.assign(values.begin(), values.end());
  }
};

// Returns `count` numbers from `first` on, wrapping around.
template <class T>
std::vector<T> from(const std::vector<T>& drawn, std::size_t first, std::int64_t count) {
  std::vector<T> values;
  values.reserve(std::size_t(count));
  while (values.size() < std::size_t(count)) {
    const std::size_t n = std::min(std::size_t(count) - values.size(), kDrawn - first);
    values.insert(values.end(), drawn.data() + first, drawn.data() + first + n);
    first = 0;
  }
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

struct Sizes {
  std::int64_t m, n, k;
};

// Sizes around the edges of tiles, panels, groups and blocks. With a transposed first factor, the last three are
// packed.
const std::vector<Sizes> kSizes = {{1, 1, 0},     {1, 1, 1},     {3, 5, 2},     {8, 8, 8},
                                   {7, 48, 3},    {9, 49, 17},   {30, 2, 5},    {17, 300, 31},
                                   {100, 100, 9}, {8, 24, 385},  {97, 33, 70},  {2, 25, 800},
                                   {97, 700, 40}, {97, 50, 170}, {260, 50, 65}, {65, 50, 800}};

template <class T>
struct Case {
  Matmul p;
  std::int64_t batch;
  std::vector<T> a, b, c, bias;
  std::vector<double> wide_a, wide_b;  // the same numbers, of the batch's first matrices

  Case(Sizes sizes, bool transpose_a, bool transpose_b, std::int64_t batches = 1) : batch(batches) {
    const auto [m, n, k] = sizes;
    p.dtype = kDTypeOf<T>;
    p.m = m;
    p.n = n;
    p.k = k;
    p.transpose_a = transpose_a;
    p.transpose_b = transpose_b;
    p.lda = (transpose_a ? m : k) + kRowGap;
    p.ldb = (transpose_b ? k : n) + kRowGap;
    p.ldc = n + kRowGap;
    p.batch = batch;
    p.stride_a = p.lda * (transpose_a ? k : m);
    p.stride_b = p.ldb * (transpose_b ? n : k);
    p.stride_c = p.ldc * m;
    static const Drawn<T> drawn;
    static std::size_t next = 0;
    const auto draw = [](std::vector<T>& values, std::int64_t count, std::vector<double>* wide, std::int64_t of_wide) {
      values = from(drawn.values, next, count);
      if (wide) *wide = from(drawn.wide, next, of_wide);
      next = (next + std::size_t(count)) % kDrawn;
    };
    draw(a, p.stride_a * batch, &wide_a, p.stride_a);
    draw(b, p.stride_b * batch, &wide_b, p.stride_b);
    draw(c, p.stride_c * batch, nullptr, 0);
    draw(bias, n, nullptr, 0);
  }

  // An element of the first product of the batch. Uses pointers, because unoptimized and sanitized builds spend most of
  // their time here.
  double element(std::int64_t i, std::int64_t j) const {
    const double *x = wide_a.data(), *y = wide_b.data();
    const std::int64_t step_x = p.transpose_a ? p.lda : 1, step_y = p.transpose_b ? 1 : p.ldb;
    std::int64_t at_x = i * (p.transpose_a ? 1 : p.lda), at_y = j * (p.transpose_b ? p.ldb : 1);
    double sum = 0;
    for (std::int64_t l = p.k; l > 0; --l, at_x += step_x, at_y += step_y) sum += x[at_x] * y[at_y];
    return activate(p.activation, p.alpha * sum + (p.beta == 0 ? 0 : p.beta * double(c[std::size_t(i * p.ldc + j)])) +
                                      (p.bias ? double(bias[std::size_t(j)]) : 0));
  }
};

template <class T>
double tolerance(std::int64_t k) {
  return (sizeof(T) == 4 ? 1e-6 : 1e-15) * (1 + 4 * std::sqrt(double(k)));
}

// Also expects elements outside the product to be unchanged.
template <class T>
void expect_right(const Case<T>& given, const TileKernels<T>& kernels) {
  std::vector<T> got = given.c;
  blocked_product<T>(given.p, given.a.data(), given.b.data(), got.data(), given.p.bias ? given.bias.data() : nullptr,
                     kernels);
  const double tolerated = tolerance<T>(given.p.k);
  for (std::int64_t i = 0; i < given.p.m; ++i)
    for (std::int64_t j = 0; j < given.p.ldc; ++j) {
      const auto at = std::size_t(i * given.p.ldc + j);
      if (j >= given.p.n)
        ASSERT_EQ(got[at], given.c[at]) << "beyond the row";
      else
        ASSERT_NEAR(double(got[at]), given.element(i, j), tolerated)
            << given.p.m << 'x' << given.p.n << 'x' << given.p.k << " at " << i << ',' << j;
    }
}

template <class T>
class BlockedProduct : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(BlockedProduct, Types);

TYPED_TEST(BlockedProduct, IsTheSumOfProducts) {
  for (const TileKernels<TypeParam>& kernels : all_tile_kernels<TypeParam>())
    for (const Sizes sizes : kSizes)
      for (const int transposed : {0, 1, 2, 3})
        expect_right(Case<TypeParam>(sizes, transposed & 1, transposed & 2), kernels);
}

// A matrix that is too large to be read in place.
TYPED_TEST(BlockedProduct, PacksALargeMatrix) {
  for (const TileKernels<TypeParam>& kernels : all_tile_kernels<TypeParam>())
    for (const std::int64_t m : {3, 11}) expect_right(Case<TypeParam>({m, 350, 400}, false, false), kernels);
}

TYPED_TEST(BlockedProduct, ScalesAndAddsAndActivates) {
  for (const TileKernels<TypeParam>& kernels : all_tile_kernels<TypeParam>())
    for (const std::int64_t k : {0, 5, 800}) {
      Case<TypeParam> given({9, 50, k}, false, true);
      given.p.alpha = 0.5;
      for (const double beta : {1.0, -0.25}) {
        given.p.beta = beta;
        expect_right(given, kernels);
      }
      given.p.beta = 0;
      given.p.bias = given.bias.data();
      for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu_tanh}) {
        given.p.activation = activation;
        expect_right(given, kernels);
      }
    }
}

TYPED_TEST(BlockedProduct, DoesNotReadWhatItOverwrites) {
  Case<TypeParam> given({9, 50, 400}, false, false);
  std::fill(given.c.begin(), given.c.end(), TypeParam(NAN));
  std::vector<TypeParam> got = given.c;
  blocked_product<TypeParam>(given.p, given.a.data(), given.b.data(), got.data(), nullptr);
  for (std::int64_t i = 0; i < given.p.m; ++i)
    for (std::int64_t j = 0; j < given.p.n; ++j) ASSERT_EQ(std::isnan(got[std::size_t(i * given.p.ldc + j)]), false);
}

// Every rectangle of the result, computed alone, has the same bits as in the whole result.
TYPED_TEST(BlockedProduct, HasTheBitsOfItsParts) {
  for (const TileKernels<TypeParam>& kernels : all_tile_kernels<TypeParam>())
    for (const Sizes sizes : {Sizes{101, 130, 165}, {20, 350, 400}, {40, 7, 800}, {9, 5, 3}})
      for (const int transposed : {0, 1, 2, 3}) {
        Case<TypeParam> given(sizes, transposed & 1, transposed & 2);
        if (transposed > 1) given.p.alpha = 0.3, given.p.beta = 1;
        std::vector<TypeParam> whole = given.c, parts = given.c;
        blocked_product<TypeParam>(given.p, given.a.data(), given.b.data(), whole.data(), nullptr, kernels);
        for (const std::int64_t rows : {1, 6, 17})
          for (const std::int64_t columns : {1, 31, 1000}) {
            parts = given.c;
            for (std::int64_t row = 0; row < sizes.m; row += rows)
              for (std::int64_t column = 0; column < sizes.n; column += columns) {
                Matmul part = given.p;
                part.m = std::min(rows, sizes.m - row);
                part.n = std::min(columns, sizes.n - column);
                blocked_product<TypeParam>(part, &given.a[std::size_t(row * (part.transpose_a ? 1 : part.lda))],
                                           &given.b[std::size_t(column * (part.transpose_b ? part.ldb : 1))],
                                           &parts[std::size_t(row * part.ldc + column)], nullptr, kernels);
              }
            ASSERT_TRUE(same_bits(parts, whole))
                << rows << " rows, " << columns << " columns, transposed " << transposed;
          }
      }
}

// A dense product with one column has the same bits as that column of a wider product.
TYPED_TEST(BlockedProduct, HasTheBitsOfItsColumns) {
  for (const TileKernels<TypeParam>& kernels : all_tile_kernels<TypeParam>())
    for (const int transposed : {0, 1, 2, 3}) {
      const Case<TypeParam> given({101, 40, 500}, transposed & 1, transposed & 2);
      std::vector<TypeParam> whole = given.c, column(101);
      blocked_product<TypeParam>(given.p, given.a.data(), given.b.data(), whole.data(), nullptr, kernels);
      Matmul one = given.p;
      one.n = one.ldc = 1;
      blocked_product<TypeParam>(one, given.a.data(), &given.b[std::size_t(7 * (one.transpose_b ? one.ldb : 1))],
                                 column.data(), nullptr, kernels);
      for (std::size_t i = 0; i < column.size(); ++i)
        ASSERT_EQ(column[i], whole[i * std::size_t(given.p.ldc) + 7]) << i << ", transposed " << transposed;
    }
}

template <class T>
class HostMatmul : public ::testing::Test {
 protected:
  ~HostMatmul() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};
using AllTypes = ::testing::Types<float, double, BFloat16, Half>;
TYPED_TEST_SUITE(HostMatmul, AllTypes);

TYPED_TEST(HostMatmul, IsTheSameForAnyNumberOfThreads) {
  for (const Sizes sizes : {Sizes{256, 96, 100},
                            {10, 256, 300},
                            {70, 70, 70},
                            {300, 40, 500},
                            {1, 700, 400},
                            {700, 1, 400},
                            {257, 200, 300},
                            {900, 300, 0}})
    for (const std::int64_t batch : {1, 3})
      for (const int transposed : {0, 1, 2, 3}) {
        Case<TypeParam> given(sizes, transposed & 1, transposed & 2, batch);
        given.p.a = sizes.k > 0 ? given.a.data() : nullptr;
        given.p.b = sizes.k > 0 ? given.b.data() : nullptr;
        std::vector<std::vector<TypeParam>> seen;
        for (const int threads : {1, 2, 3, 7}) {
          set_num_threads(threads);
          std::vector<TypeParam>& got = seen.emplace_back(given.c);
          given.p.c = got.data();
          matmul({.parallel = true}, given.p);
          ASSERT_TRUE(same_bits(got, seen[0])) << threads << " threads, " << sizes.m << 'x' << sizes.n << 'x' << sizes.k
                                               << ", transposed " << transposed;
        }
        const double tolerated =
            std::max(tolerance<float>(sizes.k), sizeof(TypeParam) == 2 ? 0.01 * std::sqrt(double(sizes.k)) : 0);
        for (std::int64_t i = 0; i < sizes.m; ++i)
          for (std::int64_t j = 0; j < sizes.n; ++j)
            ASSERT_NEAR(double(seen[0][std::size_t(i * given.p.ldc + j)]), given.element(i, j), tolerated);
      }
}

// Large enough for a library's bfloat16 product, in several pieces.
TEST(BFloat16Matmul, AddsInFloat) {
  for (const int transposed : {0, 1, 2, 3}) {
    Case<BFloat16> given({150, 200, 300}, transposed & 1, transposed & 2, 2);
    given.p.a = given.a.data();
    given.p.b = given.b.data();
    for (const double beta : {0.0, 0.5})
      for (const Activation activation : {Activation::none, Activation::relu}) {
        if (beta != 0 && activation != Activation::none) continue;
        given.p.beta = beta;
        given.p.activation = activation;
        given.p.bias = beta == 0 ? given.bias.data() : nullptr;
        std::vector<BFloat16> got = given.c;
        given.p.c = got.data();
        matmul({.parallel = true}, given.p);
        for (std::int64_t i = 0; i < given.p.m; ++i)
          for (std::int64_t j = 0; j < given.p.ldc; ++j) {
            const auto at = std::size_t(i * given.p.ldc + j);
            if (j >= given.p.n) {
              ASSERT_EQ(float(got[at]), float(given.c[at])) << "beyond the row";
              continue;
            }
            const double expected = given.element(i, j);  // rounded once, to 8 bits
            ASSERT_NEAR(double(got[at]), expected, std::abs(expected) / 256 + 1e-4) << i << ',' << j;
          }
      }
  }
}

// The result in float32: not rounded to 16 bits, added to what is there, the same for any number of threads.
TYPED_TEST(HostMatmul, WritesFloat32) {
  if constexpr (sizeof(TypeParam) == 2) {
    for (const Sizes sizes : {Sizes{9, 5, 3}, {150, 200, 300}, {300, 1, 500}, {600, 64, 0}})
      for (const int transposed : {0, 1, 2, 3})
        for (const double beta : {0.0, 1.0, -0.5}) {
          Case<TypeParam> given(sizes, transposed & 1, transposed & 2, 2);
          given.p.a = sizes.k > 0 ? given.a.data() : nullptr;
          given.p.b = sizes.k > 0 ? given.b.data() : nullptr;
          given.p.beta = beta;
          given.p.float32_output = true;
          std::vector<float> before(given.c.size()), bias(given.bias.size());
          for (std::size_t i = 0; i < before.size(); ++i) before[i] = float(given.c[i]) * 1.001f;
          for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = float(given.bias[i]) * 1.001f;
          if (beta == 0) given.p.bias = bias.data();
          std::vector<std::vector<float>> seen;
          for (const int threads : {1, 3}) {
            set_num_threads(threads);
            std::vector<float>& got = seen.emplace_back(before);
            given.p.c = got.data();
            matmul({.parallel = true}, given.p);
            ASSERT_TRUE(same_bits(got, seen[0])) << threads << " threads";
          }
          Case<TypeParam> sums = given;  // without beta and bias, which element() reads in 16 bits
          sums.p.beta = 0;
          sums.p.bias = nullptr;
          for (std::int64_t i = 0; i < sizes.m; ++i)
            for (std::int64_t j = 0; j < given.p.ldc; ++j) {
              const auto at = std::size_t(i * given.p.ldc + j);
              if (j >= sizes.n)
                ASSERT_EQ(seen[0][at], before[at]) << "beyond the row";
              else
                ASSERT_NEAR(double(seen[0][at]),
                            sums.element(i, j) + (beta == 0 ? double(bias[std::size_t(j)]) : beta * double(before[at])),
                            tolerance<float>(sizes.k));
            }
        }
  }
}

// All products of a batch share one matrix.
TYPED_TEST(HostMatmul, SharesAMatrixAmongABatch) {
  Case<TypeParam> given({20, 30, 40}, false, true, 4);
  given.p.a = given.a.data();
  given.p.b = given.b.data();
  given.p.stride_b = 0;
  std::vector<TypeParam> got = given.c;
  given.p.c = got.data();
  matmul({.parallel = true}, given.p);
  Matmul one = given.p;
  one.batch = 1;
  std::vector<TypeParam> expected = given.c;
  for (std::int64_t item = 0; item < 4; ++item) {
    one.a = given.a.data() + item * given.p.stride_a;
    one.c = expected.data() + item * given.p.stride_c;
    matmul({}, one);
  }
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(double(got[i]), double(expected[i])) << i;
}

}  // namespace
}  // namespace lockstep::host
