// Attention against a composition of ops, and its use of memory.
#include <lockstep/ops/attention.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/threads.h>

#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

double difference(const Tensor& a, const Tensor& b) { return max(abs(a.detach() - b.detach())).item<double>(); }

// The formula; 0 for a query that sees no key.
Tensor by_formula(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added, double scale) {
  Tensor scores = matmul(q, k.transpose(-1, -2)) * scale;
  if (added.defined()) scores = scores + added;
  const Tensor e = exp(scores);
  const Tensor total = sum(e, {-1}, true);
  return matmul(e, v) / where(eq(total, 0), 1, total);
}

Tensor causal_mask(std::int64_t queries, std::int64_t keys, const Tensor& like) {
  return triu(full({queries, keys}, -kInfinity, {.dtype = like.dtype(), .device = like.device()}), 1);
}

class Attention : public ::testing::TestWithParam<Device> {
 protected:
  const TestDevices devices_{1};
};

// Several tiles of queries (64) and of keys (256), several blocks of queries (384, for 601 keys), and partial tiles and
// blocks.
TEST_P(Attention, OfSeveralTilesIsTheFormula) {
  for (const DType dtype : {kFloat32, kFloat64})
    for (const bool causal : {false, true}) {
      const TensorOptions here = {.dtype = dtype, .device = GetParam()};
      std::vector<Tensor> x;
      for (const Shape& sizes : {Shape{1, 2, 450, 8}, Shape{1, 2, 601, 8}, Shape{1, 2, 601, 5}})
        x.push_back(randn(sizes, here).requires_grad_());
      const Tensor got = scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = causal});
      const Tensor seed = randn(got.sizes(), here);
      got.backward(seed);
      std::vector<Tensor> gradients;
      for (Tensor& leaf : x) {
        gradients.push_back(leaf.grad());
        leaf.set_grad({});
      }
      const Tensor mask = causal ? causal_mask(450, 601, x[0]) : Tensor();
      const Tensor expected = by_formula(x[0], x[1], x[2], mask, 1 / std::sqrt(8.));
      expected.backward(seed);
      const double room = dtype == kFloat64 ? 1e-12 : 2e-5;
      EXPECT_LT(difference(got, expected), room);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(difference(gradients[i], x[i].grad()), room) << "input " << i;
    }
}

TEST_P(Attention, HeadsOfTheQueryShareHeadsOfTheKey) {
  const TensorOptions here = {.dtype = kFloat64, .device = GetParam()};
  std::vector<Tensor> x;
  for (const Shape& sizes : {Shape{2, 6, 5, 4}, Shape{2, 2, 7, 4}, Shape{2, 2, 7, 3}})
    x.push_back(randn(sizes, here).requires_grad_());
  const Tensor got = scaled_dot_product_attention(x[0], x[1], x[2], {.enable_gqa = true});
  const Tensor seed = randn(got.sizes(), here);
  got.backward(seed);
  const Tensor gradient = x[1].grad();
  x[1].set_grad({});
  const Tensor expected =
      by_formula(x[0], repeat_interleave(x[1], 3, 1), repeat_interleave(x[2], 3, 1), {}, 1 / std::sqrt(4.));
  EXPECT_LT(difference(got, expected), 1e-12);
  expected.backward(seed);
  EXPECT_LT(difference(gradient, x[1].grad()), 1e-12);
}

TEST_P(Attention, MasksBroadcastAndHideWholeRows) {
  const TensorOptions here = {.dtype = kFloat64, .device = GetParam()};
  const Tensor sees = tensor({{true, false, true}, {false, false, false}}).to(GetParam());
  const Tensor added = where(sees, zeros({}, here), full({}, -kInfinity, here));
  for (const int rank : {2, 3, 4, 5}) {
    Shape query = {2, 4}, key = {3, 4};
    for (int d = 2; d < rank; ++d) query.insert(0, d), key.insert(0, d);
    const Tensor q = randn(query, here).requires_grad_(), k = randn(key, here), v = randn(key, here);
    const Tensor got = scaled_dot_product_attention(q, k, v, {.mask = sees});
    EXPECT_LT(difference(got, by_formula(q, k, v, added, 0.5)), 1e-12) << rank;
    EXPECT_LT(difference(got, scaled_dot_product_attention(q, k, v, {.mask = added})), 1e-12) << rank;
    sum(got).backward();
    EXPECT_FALSE(any(isnan(q.grad())).item<bool>()) << rank;
  }
}

TEST_P(Attention, MasksMayBeEachHeadsOwn) {
  const TensorOptions here = {.dtype = kFloat64, .device = GetParam()};
  const Tensor q = randn({2, 3, 5, 4}, here), k = randn({2, 3, 6, 4}, here), v = randn({2, 3, 6, 4}, here);
  for (const Shape& sizes : {Shape{2, 3, 5, 6}, Shape{3, 1, 6}, Shape{2, 1, 5, 6}}) {
    const Tensor mask = randn(sizes, here);
    EXPECT_LT(difference(scaled_dot_product_attention(q, k, v, {.mask = mask}), by_formula(q, k, v, mask, 0.5)), 1e-12)
        << sizes;
  }
}

TEST_P(Attention, TakesViewsAndGivesHeadsThatJoinWithoutACopy) {
  const TensorOptions here = {.dtype = kFloat64, .device = GetParam()};
  const Tensor packed = randn({2, 5, 3, 2, 4}, here).requires_grad_();
  const std::vector<Tensor> x = unbind(packed.permute({2, 0, 3, 1, 4}));
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2]);
  EXPECT_TRUE(y.transpose(1, 2).is_contiguous());
  const Tensor expected = by_formula(x[0], x[1], x[2], {}, 0.5);
  EXPECT_LT(difference(y, expected), 1e-12);
  EXPECT_LT(difference(scaled_dot_product_attention(with_gaps(x[0]), reversed_in_memory(x[1]), x[2]), expected), 1e-12);
}

TEST_P(Attention, ComputesHalvesInFloat) {
  const TensorOptions here = {.device = GetParam()};
  const Tensor q = randn({2, 3, 4}, here).to(kBFloat16).requires_grad_();
  const Tensor k = randn({2, 5, 4}, here).to(kBFloat16).requires_grad_();
  const Tensor got = scaled_dot_product_attention(q, k, k);
  EXPECT_EQ(got.dtype(), kBFloat16);
  const Tensor seed = randn(got.sizes(), here).to(kBFloat16);
  got.backward(seed);
  const Tensor wide_q = q.detach().to(kFloat32).requires_grad_(), wide_k = k.detach().to(kFloat32).requires_grad_();
  const Tensor wide = by_formula(wide_q, wide_k, wide_k, {}, 0.5);
  wide.backward(seed.to(kFloat32));
  // Each is rounded once, to 8 bits of precision; the gradient of k is the sum of two rounded terms.
  const auto near = [](const Tensor& x, const Tensor& expected, double roundings) {
    EXPECT_LT(difference(x.to(kFloat32), expected), roundings * largest(expected) / 256);
  };
  near(got, wide, 1);
  near(q.grad(), wide_q.grad(), 1);
  near(k.grad(), wide_k.grad(), 3);
}

TEST_P(Attention, HasGradientsOfGradients) {
  const TensorOptions here = {.dtype = kFloat64, .device = GetParam()};
  const std::vector<Tensor> x = {randn({4, 3, 2}, here), randn({2, 4, 2}, here), randn({2, 4, 3}, here)};
  const auto causal = [](const std::vector<Tensor>& in) {
    return scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true, .enable_gqa = true});
  };
  expect_gradients(causal, x);
}

INSTANTIATE_TEST_SUITE_P(, Attention, ::testing::Values(Device(), Device::cuda(0)),
                         [](const auto& device) { return device.param.is_cpu() ? "Cpu" : "Device"; });

TEST(AttentionOnTheCpu, IsTheSameForAnyNumberOfThreads) {
  const int before = num_threads();
  Tensor q = randn({1, 2, 200, 16}).requires_grad_();
  const Tensor k = randn({1, 2, 300, 16});
  std::vector<std::vector<double>> seen;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    q.set_grad({});
    const Tensor y = scaled_dot_product_attention(q, k, k, {.is_causal = true});
    sum(square(y)).backward();
    seen.push_back(values(cat({y.detach().flatten(), q.grad().flatten()})));
  }
  set_num_threads(before);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
}

TEST(AttentionMemory, GrowsLinearlyWithTheLength) {
  const TestDevices devices(1);
  const Device device = "cuda:0";
  const auto peak = [&](std::int64_t length) {
    const Tensor x = randn({1, 1, length, 8}, {.device = device}).requires_grad_();
    reset_peak_memory(device);
    const std::size_t before = memory_stats(device).in_use;
    sum(scaled_dot_product_attention(x, x, x, {.is_causal = true})).backward();
    return double(memory_stats(device).peak_in_use - before);
  };
  peak(512);
  const double one = peak(1024), four = peak(4096);
  EXPECT_LT(four, 4.5 * one);
  EXPECT_LT(four, 4096. * 4096 * 4 / 8);  // of the scores' memory
}

TEST(AttentionCall, DropsWeights) {
  const Tensor v = ones({1, 64, 1});
  const Tensor y = scaled_dot_product_attention(zeros({1, 200, 2}), zeros({1, 64, 2}), v, {.dropout = 0.5});
  EXPECT_NEAR(mean(y).item<double>(), 1, 0.05);
  EXPECT_GT(var(y).item<double>(), 0.005);
}

TEST(AttentionCall, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({2, 4, 3, 2}), three = zeros({2, 3, 3, 2});
  const auto with = [&](const AttentionOptions& options) { scaled_dot_product_attention(x, x, x, options); };
  EXPECT_EQ(
      message_of<ShapeError>([&] {
        scaled_dot_product_attention(x, zeros({2, 4, 3, 5}), x);
      }),
      "[scaled_dot_product_attention] expected [..., queries, features], [..., keys, features] and [..., keys, out], "
      "got [2, 4, 3, 2], [2, 4, 3, 5] and [2, 4, 3, 2]");
  EXPECT_EQ(message_of<ShapeError>([&] { scaled_dot_product_attention(x, three, three, {.enable_gqa = true}); }),
            "[scaled_dot_product_attention] expected a query with a multiple of the heads of key and value, got "
            "[2, 4, 3, 2], [2, 3, 3, 2] and [2, 3, 3, 2]");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              with({.mask = ones({3, 3}), .is_causal = true});
            }),
            "[scaled_dot_product_attention] expected a mask or is_causal, got both");
  EXPECT_EQ(message_of<InvalidArgument>([&] { with({.dropout = 2}); }),
            "[scaled_dot_product_attention] expected a dropout from 0 to 1, got 2");
  EXPECT_EQ(message_of<DTypeError>([&] {
              with({.mask = ones({3, 3}, {.dtype = kFloat64})});
            }),
            "[scaled_dot_product_attention] expected a mask of bool or float32, got float64");
  EXPECT_EQ(message_of<ShapeError>([&] {
              with({.mask = ones({4, 3})});
            }).substr(0, 30),
            "[scaled_dot_product_attention]");
}

TEST(RotaryEmbedding, TurnsPairsByTheirPosition) {
  const Tensor x = doubles({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  const Tensor positions = tensor({0, 3});
  const double c0 = std::cos(3.), s0 = std::sin(3.), c1 = std::cos(0.03), s1 = std::sin(0.03);
  const auto near = [](const Tensor& got, const std::vector<double>& expected) {
    EXPECT_LT(difference(got, doubles(expected, {2, 4})), 1e-14);
  };
  near(rotary_embedding(x, positions),
       {1, 2, 3, 4, 5 * c0 - 7 * s0, 6 * c1 - 8 * s1, 7 * c0 + 5 * s0, 8 * c1 + 6 * s1});
  near(rotary_embedding(x, positions, {.pairs = RotaryPairs::neighbors}),
       {1, 2, 3, 4, 5 * c0 - 6 * s0, 6 * c0 + 5 * s0, 7 * c1 - 8 * s1, 8 * c1 + 7 * s1});
  EXPECT_THROW(rotary_embedding(zeros({2, 3}), positions), ShapeError);
}

TEST(AttentionCall, WithoutKeysHasAllGradients) {
  const Tensor query = ones({2, 3}).requires_grad_(), keys = zeros({0, 3}), mask = zeros({2, 1}).requires_grad_();
  sum(scaled_dot_product_attention(query, keys, keys, {.mask = mask})).backward();
  EXPECT_EQ(query.grad().to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_EQ(mask.grad().to_vector<float>(), std::vector<float>(2, 0));
}

TEST(AttentionCall, OfNoHeadsIsEmpty) {
  const Tensor x = zeros({2, 0, 3, 4}).requires_grad_();
  for (const bool grouped : {false, true}) {
    const Tensor y = scaled_dot_product_attention(x, x, x, {.enable_gqa = grouped});
    EXPECT_EQ(y.sizes(), x.sizes());
    sum(y).backward();
  }
}

}  // namespace
}  // namespace lockstep
