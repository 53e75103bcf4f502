// The attention kernels on emulated cards: what they decline, their launches, their memory, and the random numbers of a
// captured step's dropout. (Their results: tests/ops/attention_kernels_test.cpp.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <lockstep/lockstep.h>

#include "cuda/emulation/emulator.h"
#include "cuda/fake_devices.h"
#include "ops/fused.h"

namespace lockstep {
namespace {

using emulation::settings;

FusedOperand operand(const Shape& sizes, DType dtype, bool written = false) {
  return {nullptr, dtype, sizes, contiguous_strides(sizes), true, written};
}

// Two batches of four query heads over two key heads, 100 queries, 120 keys.
FusedOp forward_of(DType dtype, std::int64_t features, std::int64_t out) {
  FusedOp op = {.kind = FusedKind::attention, .name = "attention"};
  op.operands[0] = operand({2, 4, 100, features}, dtype);
  op.operands[1] = operand({2, 2, 120, features}, dtype);
  op.operands[2] = operand({2, 2, 120, out}, dtype);
  op.operands[4] = operand({2, 4, 100, out}, dtype, true);
  op.operands[5] = operand({2, 4, 100}, kFloat32, true);
  return op;
}

TEST(AttentionOnCards, IsOffered16BitFloatsOfUpTo128Features) {
  const FakeDevices devices({.cards = {0}});
  Backend& backend = card(0).backend;
  for (const DType dtype : {kFloat16, kBFloat16})
    for (const std::int64_t features : {1, 27, 64, 128})
      EXPECT_TRUE(backend.workspace_size(0, forward_of(dtype, features, 64))) << features;

  FusedOp strided = forward_of(kFloat16, 64, 64), mixed = strided, masked = strided, drops = strided;
  strided.operands[0].strides[3] = 2;
  mixed.operands[2].dtype = kBFloat16;
  masked.operands[3] = operand({2, 4, 100, 120}, kFloat32);
  drops.dropout = {.threshold = 1, .run = 121, .stride = 121};
  for (const FusedOp& op : {forward_of(kFloat32, 64, 64), forward_of(kFloat16, 129, 64), forward_of(kFloat16, 64, 136),
                            strided, mixed, masked, drops})
    EXPECT_FALSE(backend.workspace_size(0, op));
  masked.operands[3] = operand({2, 4, 100, 120}, kFloat16);
  masked.operands[3].strides = {0, 0, 0, 1};
  drops.dropout.run = drops.dropout.stride = 2 * 4 * 100 * 120;
  EXPECT_TRUE(backend.workspace_size(0, masked));
  EXPECT_TRUE(backend.workspace_size(0, drops));
}

TEST(AttentionOnCards, NeedsComputeCapability8) {
  for (const int capability : {7, 8}) {
    const FakeDevices devices({.cards = {0}}, 1, true, 64 << 20, capability);
    EXPECT_EQ(card(0).backend.workspace_size(0, forward_of(kFloat16, 64, 64)).has_value(), capability == 8);
  }
}

// The launches of a forward and of a backward.
TEST(AttentionOnCards, IsOneGridForwardAndTwoBackward) {
  const emulation::Settings outer = settings();
  {
    const FakeDevices devices({.cards = {0}}, 1, true, std::size_t(1) << 40);
    machine().address_only = true;
    settings().record_only = true;
    const TensorOptions here = {.dtype = kBFloat16, .device = "cuda:0"};
    const Tensor packed = empty({2, 1000, 3, 12, 64}, here).requires_grad_();
    const std::vector<Tensor> x = unbind(packed.permute({2, 0, 3, 1, 4}));
    settings().launches.clear();
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.dropout = 0.1, .is_causal = true});
    ASSERT_EQ(settings().launches.size(), 1u);
    EXPECT_EQ(settings().launches[0].blocks.x, 16u * 2 * 12);
    const Tensor g = empty(y.sizes(), here);
    settings().launches.clear();
    const std::vector<Tensor> roots = {y}, inputs = {x[0], x[1], x[2]}, seeds = {g};
    gradients(roots, inputs, seeds);
    EXPECT_EQ(settings().launches.size(), 2u);
  }
  settings() = outer;
}

TEST(AttentionOnCards, TakesMemoryThatGrowsLinearlyWithTheLength) {
  const emulation::Settings outer = settings();
  {
    const FakeDevices devices({.cards = {0}}, 1, true, std::size_t(1) << 40);
    machine().address_only = true;
    settings().record_only = true;
    const Device device("cuda:0");
    const auto peak = [&](std::int64_t length) {
      const Tensor x = empty({1, 8, length, 64}, {.dtype = kBFloat16, .device = device}).requires_grad_();
      const Tensor mask = empty({1, 1, 1, length}, {.dtype = kBool, .device = device});
      reset_peak_memory(device);
      const std::size_t before = memory_stats(device).in_use;
      sum(scaled_dot_product_attention(x, x, x, {.mask = mask, .dropout = 0.1})).backward();
      return double(memory_stats(device).peak_in_use - before) / double(length);
    };
    const double of_a_token = peak(1 << 12);
    EXPECT_NEAR(peak(1 << 14) / of_a_token, 1, 0.02);
    EXPECT_NEAR(peak(1 << 17) / of_a_token, 1, 0.02);
    EXPECT_LT(of_a_token, 8 * 64 * 2 * 8);  // eight tensors of the query's size
  }
  settings() = outer;
}

// In a captured step the kernels read seed, stream and offset from memory.
TEST(AttentionOnCards, ReadsTheStartOfItsRandomNumbers) {
  const FakeDevices devices({.cards = {0}}, 1);
  const TensorOptions here = {.dtype = kBFloat16, .device = "cuda:0"};
  manual_seed(4);
  std::vector<Tensor> x;
  for (int i = 0; i < 4; ++i) x.push_back(randn({1, 2, 70, 16}, here));
  const Tensor start = tensor({7, 5, 3}).to(Device("cuda:0")), none;
  const auto run = [&](bool from_memory) {
    const Tensor y = empty_like(x[0]), logsumexp = empty({1, 2, 70}, {.device = "cuda:0"});
    std::vector<Tensor> to;
    for (int i = 0; i < 3; ++i) to.push_back(empty_like(x[0]));
    FusedOp op = {.kind = FusedKind::attention,
                  .name = "attention",
                  .scale = 0.25,
                  .dropout = {.threshold = 1u << 30, .scale = 4 / 3., .run = 2 * 70 * 70, .stride = 2 * 70 * 70}};
    if (!from_memory) op.dropout.start = {7, 5, 3};
    const Tensor& where = from_memory ? start : none;
    EXPECT_TRUE(run_fused(op, {{x[0]}, {x[1]}, {x[2]}, {none}, {y, true}, {logsumexp, true}, {where}}));
    op.kind = FusedKind::attention_gradient;
    EXPECT_TRUE(run_fused(op, {{x[3]},
                               {x[0]},
                               {x[1]},
                               {x[2]},
                               {none},
                               {y},
                               {logsumexp},
                               {to[0], true},
                               {to[1], true},
                               {to[2], true},
                               {where}}));
    to.push_back(y);
    std::vector<std::vector<double>> results;
    for (const Tensor& each : to) results.push_back(each.to(Device(), kFloat64).to_vector<double>());
    return results;
  };
  const auto given = run(false);
  EXPECT_EQ(run(true), given);
  EXPECT_TRUE(std::ranges::none_of(given, [](const auto& values) {
    return std::ranges::any_of(values, [](double value) { return std::isnan(value); });
  }));
}

}  // namespace
}  // namespace lockstep
