// Products of bfloat16 matrices by the host's library, over random sizes, against naive sums, with guard bytes around
// all memory that the library may write. The values are small integers, whose sums are exact. Each run takes a sample
// that changes daily; LOCKSTEP_PRODUCTS sets its size, and LOCKSTEP_SEED selects it.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <vector>

#include "cpu/products/bfloat16_product.h"
#include "support/drawn.h"
#include "support/guarded.h"
#include "support/repetitions.h"

namespace lockstep::host {
namespace {

using namespace testing;

// The scratch of all pieces of a product.
std::vector<std::shared_ptr<Guarded>>& scratches() {
  static std::vector<std::shared_ptr<Guarded>> all;
  return all;
}
std::shared_ptr<std::byte[]> guarded_scratch(std::size_t bytes) {
  const auto& guarded = scratches().emplace_back(std::make_shared<Guarded>(bytes));
  return {guarded, guarded->data()};
}

// Rows of integers, with a gap after each row.
struct Matrix {
  std::int64_t rows, columns, pitch;
  std::vector<float> values;
  Guarded memory;

  Matrix(std::int64_t rows_, std::int64_t columns_, Random& random)
      : rows(rows_),
        columns(columns_),
        pitch(columns_ + (one_in(random, 2) ? 0 : between(random, 1, 9))),
        memory(std::size_t(rows * pitch) * sizeof(BFloat16), 1, one_in(random, 2) ? 0 : 2 * (random() % 32)) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        data()[i * pitch + j] = values.emplace_back(float(between(random, -4, 4)));
  }
  BFloat16* data() const { return reinterpret_cast<BFloat16*>(memory.data()); }
  float at(std::int64_t i, std::int64_t j) const { return values[std::size_t(i * columns + j)]; }
  bool intact() const {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = columns; j < pitch; ++j)
        if (data()[i * pitch + j].bits() != 0xffff) return false;
    return memory.intact();
  }
};

TEST(BFloat16Grid, IsTheSumOfProductsAndWritesNothingBeside) {
  const std::int64_t count = number_from("LOCKSTEP_PRODUCTS", repetitions(20)), seed = seed_of_the_day();
  Random random{std::uint64_t(seed)};
  std::int64_t taken = 0;
  for (std::int64_t n = 0; n < count; ++n) {
    const auto side = [&] {
      return one_in(random, 3) ? between(random, 1, 8) : between(random, 9, one_in(random, 8) ? 600 : 90);
    };
    Matmul p;
    do p.m = side(), p.n = side(), p.k = one_in(random, 4) ? between(random, 1, 2000) : side();
    while (p.m * p.n * p.k < 1 << 17 || p.m * p.n * p.k > 1 << 24);
    p.dtype = kBFloat16;
    p.transpose_a = one_in(random, 2);
    p.transpose_b = one_in(random, 2);
    p.beta = one_in(random, 2) ? 0 : one_in(random, 2) ? 1 : 0.5;
    const Matrix a(p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, random),
        b(p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, random);
    const Matrix c(p.m, p.n, random), bias(1, p.n, random);
    p.a = a.data();
    p.b = b.data();
    p.c = c.data();
    p.bias = p.beta == 0 && one_in(random, 2) ? bias.data() : nullptr;
    p.lda = a.pitch;
    p.ldb = b.pitch;
    p.ldc = c.pitch;
    SCOPED_TRACE(::testing::Message() << "LOCKSTEP_SEED=" << seed << ", product " << n << ": " << p.m << " x " << p.n
                                      << " x " << p.k << (p.transpose_a ? ", a transposed" : "")
                                      << (p.transpose_b ? ", b transposed" : "") << ", beta " << p.beta
                                      << (p.bias ? ", bias" : "") << ", pitches " << p.lda << ' ' << p.ldb << ' '
                                      << p.ldc);
    scratches().clear();
    if (!bfloat16_product({}, p, guarded_scratch)) continue;
    ++taken;
    for (const auto& scratch : scratches()) ASSERT_TRUE(scratch->intact()) << "scratch overflows";
    ASSERT_TRUE(a.intact() && b.intact() && c.intact() && bias.intact());
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        float sum = float(p.beta) * c.at(i, j) + (p.bias ? bias.at(0, j) : 0);
        for (std::int64_t k = 0; k < p.k; ++k)
          sum += (p.transpose_a ? a.at(k, i) : a.at(i, k)) * (p.transpose_b ? b.at(j, k) : b.at(k, j));
        ASSERT_EQ(float(c.data()[i * c.pitch + j]), float(BFloat16(sum))) << i << ',' << j;
      }
  }
  scratches().clear();
  std::cout << "BFloat16Grid: LOCKSTEP_SEED=" << seed << ", " << count << " products, " << taken
            << " taken by the library\n";
}

}  // namespace
}  // namespace lockstep::host
