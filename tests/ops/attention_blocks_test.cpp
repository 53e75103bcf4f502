// Attention by blocks of queries, which devices use if Backend::fused declines it, with small blocks: against the
// composed attention, and its use of memory.
#include "ops/attention/blocks.h"

#include <lockstep/autograd/autograd.h>
#include <lockstep/runtime/memory.h>

#include <algorithm>
#include <ostream>

#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

struct BlocksCase {
  const char* name;
  std::int64_t heads, groups, queries, keys;
  bool causal = false, masked = false;
};

void PrintTo(const BlocksCase& c, std::ostream* out) { *out << c.name; }

const std::vector<BlocksCase> kBlocksCases = {
    {"Plain", 2, 2, 13, 13},
    {"FewerQueries", 2, 2, 7, 13},
    {"Causal", 2, 2, 13, 13, true},
    {"CausalFewerQueries", 2, 2, 7, 13, true},
    {"CausalFewerKeys", 2, 2, 13, 6, true},
    {"CausalOfManyBlocks", 1, 1, 150, 150, true},
    {"Grouped", 6, 2, 5, 9},
    {"GroupedCausal", 6, 2, 9, 9, true},
    {"Masked", 2, 2, 13, 10, false, true},
    {"GroupedMasked", 4, 2, 9, 11, false, true},
};

class AttentionBlocks : public ::testing::TestWithParam<std::tuple<Device, BlocksCase>> {
 protected:
  // [2, heads, length, features], with the heads of a position adjacent in memory.
  Tensor numbers(std::int64_t heads, std::int64_t length, std::int64_t features, DType dtype) const {
    return randn({2, length, heads, features}, {.dtype = dtype, .device = std::get<0>(GetParam())}).transpose(1, 2);
  }

  // One mask for all batches, different for each head; it hides some keys, and from the third query all keys.
  AttentionInputs inputs(DType dtype) const {
    const auto& [device, c] = GetParam();
    AttentionInputs in = {numbers(c.heads, c.queries, 4, dtype),
                          numbers(c.groups, c.keys, 4, dtype),
                          numbers(c.groups, c.keys, 3, dtype),
                          {},
                          0.7,
                          c.causal};
    if (!c.masked) return in;
    const TensorOptions here = {.dtype = dtype, .device = device};
    Tensor mask = randn({1, c.heads, c.queries, c.keys}, here);
    mask = masked_fill(mask, gt(mask, 1), -kInfinity);
    mask.select(2, 2).fill_(-kInfinity);
    in.mask = mask.expand({2, c.heads, c.queries, c.keys});
    return in;
  }

  const TestDevices devices_{1};
};

double largest_difference(const Tensor& a, const Tensor& b) { return largest(a.detach() - b.detach()); }

TEST_P(AttentionBlocks, GiveWhatTheCompositionGives) {
  const auto& [device, c] = GetParam();
  manual_seed(3);
  for (const DType dtype : {kFloat64, kFloat32}) {
    const TensorOptions here = {.dtype = dtype, .device = device};
    const AttentionInputs in = inputs(dtype);
    AttentionInputs leaves = in;
    for (Tensor* x : {&leaves.query, &leaves.key, &leaves.value}) *x = x->clone().requires_grad_();
    const Tensor expected = composed_attention(leaves, 0, {});
    const Tensor g = randn(expected.sizes(), here);
    expected.backward(g);
    const double room = dtype == kFloat64 ? 1e-12 : 2e-5;
    for (const std::int64_t rows : {1, 2, 4, 200}) {
      const Tensor y = empty(expected.sizes(), here), log_sums = empty({2, c.heads, c.queries}, here);
      attention_by_blocks(in, rows, y, log_sums);
      EXPECT_LT(largest_difference(y, expected), room) << rows;
      const AttentionGradients got = attention_gradients_by_blocks(g, in, rows, y, log_sums);
      EXPECT_LT(largest_difference(got.query, leaves.query.grad()), room) << rows;
      EXPECT_LT(largest_difference(got.key, leaves.key.grad()), room) << rows;
      EXPECT_LT(largest_difference(got.value, leaves.value.grad()), room) << rows;
    }
  }
}

// Weights, the gradients of scores, and results are rounded to 16 bits, once each. The gradient of a score is a
// difference from a mean that is computed of rounded results, so it is less exact than the largest of them.
TEST_P(AttentionBlocks, Of16BitsSumInFloat) {
  const auto& [device, c] = GetParam();
  manual_seed(3);
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const AttentionInputs in = inputs(dtype);
    AttentionInputs leaves = in;
    for (Tensor* x : {&leaves.query, &leaves.key, &leaves.value}) *x = x->to(kFloat64).clone().requires_grad_();
    if (in.mask.defined()) leaves.mask = in.mask.to(kFloat64);
    const Tensor expected = composed_attention(leaves, 0, {});
    const Tensor g = randn(expected.sizes(), {.device = device}).to(dtype);
    expected.backward(g.to(kFloat64));
    const auto near = [&](const Tensor& got, const Tensor& exact, double units) {
      EXPECT_EQ(got.dtype(), dtype);
      EXPECT_LT(largest_difference(got.to(kFloat64), exact) / largest(exact),
                units * (dtype == kBFloat16 ? 0x1p-9 : 0x1p-12));
    };
    for (const std::int64_t rows : {4, 200}) {
      const Tensor y = empty(expected.sizes(), {.dtype = dtype, .device = device}),
                   log_sums = empty({2, c.heads, c.queries}, {.device = device});
      attention_by_blocks(in, rows, y, log_sums);
      near(y, expected, 3);
      const AttentionGradients got = attention_gradients_by_blocks(g, in, rows, y, log_sums);
      near(got.query, leaves.query.grad(), 6);
      near(got.key, leaves.key.grad(), 6);
      near(got.value, leaves.value.grad(), 6);
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Device, BlocksCase>>& test) {
  const auto& [device, c] = test.param;
  return std::string(device.is_cpu() ? "Cpu" : "Device") + c.name;
}

INSTANTIATE_TEST_SUITE_P(, AttentionBlocks,
                         ::testing::Combine(::testing::Values(Device(), Device::cuda(0)),
                                            ::testing::ValuesIn(kBlocksCases)),
                         name_of);

AttentionInputs of_itself(const Tensor& x) { return {x, x, x, {}, 1, true}; }

// Reading a hidden NaN would show, because 0 times NaN is NaN.
TEST(AttentionByBlocks, ReadsNoKeyThatABlockDoesNotSee) {
  const Tensor x = random_doubles({1, 1, 8, 2}), y = zeros_like(x), log_sums = zeros({1, 1, 8}, {.dtype = kFloat64});
  Tensor(x.narrow(2, 4, 4)).fill_(kNan);
  attention_by_blocks(of_itself(x), 2, y, log_sums);
  EXPECT_TRUE(all(isfinite(y.narrow(2, 0, 4))).item<bool>());
  EXPECT_TRUE(all(isnan(y.narrow(2, 4, 4))).item<bool>());
}

TEST(AttentionByBlocks, TakesMemoryThatGrowsLinearlyWithTheLength) {
  const TestDevices devices(1);
  const Device device = "cuda:0";
  const auto peak = [&](std::int64_t length) {
    const Tensor x = randn({1, 2, length, 4}, {.device = device});
    reset_peak_memory(device);
    const std::size_t before = memory_stats(device).in_use;
    const Tensor y = empty_like(x), log_sums = empty({1, 2, length}, {.device = device});
    attention_by_blocks(of_itself(x), 16, y, log_sums);
    attention_gradients_by_blocks(y, of_itself(x), 16, y, log_sums);
    return double(memory_stats(device).peak_in_use - before);
  };
  peak(256);
  EXPECT_LT(peak(512), 2.2 * peak(256));
}

TEST(AttentionByBlocks, BoundsTheScoresOfABlock) {
  EXPECT_GE(attention_block_rows(1), 1 << 17);
  EXPECT_EQ(attention_block_rows(512), 512);
  for (const std::int64_t keys : {513, 1000, 4000, 5000, 1 << 20})
    EXPECT_LE(attention_block_rows(keys) * keys, std::max<std::int64_t>(512 * 512, 64 * keys)) << keys;
}

}  // namespace
}  // namespace lockstep
