// overlaps_elsewhere() for two views of one array, against the sets of their elements.
#include "tensor/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include <lockstep/tensor/creation.h>

#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

TEST(Overlap, IsExact) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t bound) { return std::int64_t(random() % std::uint64_t(bound)); };
  const Tensor x = arange(120).view({4, 5, 6});
  const auto view = [&] {
    Tensor v = x;
    for (int cuts = 0; cuts < 3; ++cuts) {
      if (v.dim() > 1 && below(3) == 0) v = v.transpose(0, v.dim() - 1);
      const auto dim = int(below(v.dim()));
      const std::int64_t size = 1 + below(v.sizes()[dim]);
      v = v.narrow(dim, below(v.sizes()[dim] - size + 1), size);
      if (v.dim() > 1 && below(4) == 0) v = v.select(0, below(v.sizes()[0]));
    }
    while (v.dim() > 0 && below(5) == 0) v = v.select(0, below(v.sizes()[0]));
    return v;
  };
  int apart = 0;
  for (int i = 0; i < 3000; ++i) {
    const Tensor a = view(), b = view();
    if (a.sizes() == b.sizes() && a.strides() == b.strides() && a.impl()->offset == b.impl()->offset) continue;
    const std::vector<double> of_a = values(a), of_b = values(b);
    const bool expected = std::ranges::any_of(of_a, [&](double e) { return std::ranges::count(of_b, e) > 0; });
    ASSERT_EQ(overlaps_elsewhere(*a.impl(), *b.impl()), expected)
        << a.sizes() << a.strides() << b.sizes() << b.strides();
    apart += !expected;
  }
  EXPECT_GT(apart, 300);
}

}  // namespace
}  // namespace lockstep
