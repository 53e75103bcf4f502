// The regions of a matrix product contain exactly the elements that it accesses, for every layout of a batch.
#include <gtest/gtest.h>

#include <set>

#include "backends/sim/accesses.h"
#include "backends/sim/region.h"

namespace lockstep::sim {
namespace {

float matrices[4096];

std::set<std::int64_t> elements_of(const std::vector<MemoryAccess>& accesses, AccessKind kind) {
  std::set<std::int64_t> elements;
  for (const auto& [region, access_kind] : accesses) {
    if (access_kind != kind) continue;
    const auto* const first = static_cast<const float*>(region.data);
    for (std::size_t row = 0; row < region.rows; ++row)
      for (std::size_t i = 0; i < region.row_bytes / sizeof(float); ++i)
        elements.insert(first - matrices + std::int64_t(row * region.pitch / sizeof(float) + i));
  }
  return elements;
}

std::set<std::int64_t> result_elements(const Matmul& p) {
  std::set<std::int64_t> elements;
  for (std::int64_t i = 0; i < p.batch; ++i)
    for (std::int64_t row = 0; row < p.m; ++row)
      for (std::int64_t column = 0; column < p.n; ++column) elements.insert(i * p.stride_c + row * p.ldc + column);
  return elements;
}

Matmul product(std::int64_t batch, std::int64_t ldc, std::int64_t stride_c) {
  return {.m = 3,
          .n = 4,
          .k = 2,
          .a = matrices + 2048,
          .b = matrices + 3072,
          .c = matrices,
          .lda = 2,
          .ldb = 4,
          .ldc = ldc,
          .batch = batch,
          .stride_a = 6,
          .stride_b = 0,
          .stride_c = stride_c};
}

TEST(MatmulRegions, AreExactForEveryLayoutOfABatch) {
  const Matmul layouts[] = {
      product(1, 4, 0),  product(1, 7, 0),   // one matrix, dense and not
      product(5, 4, 12), product(5, 6, 18),  // adjacent
      product(5, 4, 20),                     // dense, with gaps between
      product(5, 20, 4), product(5, 32, 4),  // side by side, like the heads of attention
      product(5, 32, 5), product(5, 6, 40),  // none of these
  };
  for (const Matmul& layout : layouts)
    EXPECT_EQ(elements_of(accesses_of(layout), AccessKind::write), result_elements(layout))
        << "ldc " << layout.ldc << " stride " << layout.stride_c;
  EXPECT_EQ(accesses_of(layouts[5]).size(), 3u);
}

TEST(MatmulRegions, ALargeBatchOfAnotherLayoutIsCoveredByFewRegions) {
  const Matmul layout = product(100, 6, 30);
  const std::vector<MemoryAccess> accesses = accesses_of(layout);
  EXPECT_LE(accesses.size(), 4u);
  const std::set<std::int64_t> covered = elements_of(accesses, AccessKind::write);
  for (const std::int64_t element : result_elements(layout)) EXPECT_TRUE(covered.contains(element));
}

TEST(MatmulRegions, TheResultIsReadOnlyWhenItIsAddedTo) {
  Matmul p = product(1, 4, 0);
  EXPECT_EQ(accesses_of(p).size(), 3u);
  p.beta = 1;
  EXPECT_EQ(accesses_of(p).size(), 4u);
  p.k = 0;
  EXPECT_EQ(accesses_of(p).size(), 2u);
  p.m = 0;
  EXPECT_TRUE(accesses_of(p).empty());
}

TEST(MatmulRegions, FollowTransposition) {
  Matmul p = product(1, 4, 0);
  p.transpose_a = true;
  p.lda = 3;
  const Region a = accesses_of(p)[0].region;
  EXPECT_EQ(a.rows, 2u);
  EXPECT_EQ(a.row_bytes, 3 * sizeof(float));
}

}  // namespace
}  // namespace lockstep::sim
