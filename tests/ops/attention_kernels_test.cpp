// Attention of 16-bit floats, as devices compute it, against the composed attention in float64 of the same numbers; and
// its dropout, which drops the weights that dropout() drops.
#include <lockstep/ops/attention.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/ops/dropout.h>

#include <cmath>
#include <optional>
#include <ostream>

#include "core/context.h"
#include "core/text.h"
#include "ops/attention/composed.h"
#include "ops/checks.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using namespace testing;

enum class MaskKind { none, bias, padding, per_query };

struct KernelCase {
  std::string name;
  std::int64_t heads, groups, queries, keys, features, out;
  bool causal = false;
  MaskKind mask = MaskKind::none;
};

void PrintTo(const KernelCase& c, std::ostream* out) { *out << c.name; }

const std::vector<KernelCase> kNamedCases = {
    {"OneOfEach", 1, 1, 1, 1, 1, 1},
    {"OneTile", 2, 2, 64, 64, 64, 64},
    {"OddLengths", 2, 2, 77, 131, 64, 64},
    {"Causal", 2, 2, 131, 131, 64, 64, true},
    {"CausalFewerQueries", 1, 1, 33, 130, 64, 64, true},
    {"CausalFewerKeys", 1, 1, 150, 70, 64, 64, true},
    {"ManyFeatures", 1, 1, 70, 99, 128, 128, true},
    {"OddFeatures", 2, 2, 40, 70, 27, 13},
    {"FeaturesBetween", 1, 1, 40, 70, 96, 80},
    {"Grouped", 6, 2, 37, 70, 64, 64},
    {"GroupedCausal", 4, 1, 70, 70, 64, 64, true},
    {"Bias", 2, 2, 70, 67, 64, 64, false, MaskKind::bias},
    {"Padding", 4, 2, 40, 131, 64, 64, false, MaskKind::padding},
    {"HiddenQueries", 2, 2, 70, 67, 128, 64, false, MaskKind::per_query},
    {"TooManyFeatures", 2, 1, 20, 30, 136, 40, true},
    {"TooManyFeaturesMasked", 2, 2, 20, 30, 20, 136, false, MaskKind::per_query},
};

// Those above, and lengths at the borders of tiles for all numbers of features, causal, with a bias and padded in turn.
std::vector<KernelCase> kernel_cases() {
  std::vector<KernelCase> cases = kNamedCases;
  for (const std::int64_t features : {8, 16, 32, 48, 80, 112})
    for (const auto& [queries, keys] : std::vector<std::pair<int, int>>{{1, 70}, {65, 63}, {128, 128}, {17, 193}}) {
      const std::size_t i = cases.size() - kNamedCases.size();
      const bool causal = i % 3 == 0;
      cases.push_back({text("Queries", queries, "Keys", keys, "Features", features), i % 2 == 0 ? 2 : 4, 2, queries,
                       keys, features, i % 4 == 3 ? 40 : features, causal, causal ? MaskKind::none : MaskKind(i % 3)});
    }
  return cases;
}

// The largest error, as a multiple of `unit` and of the largest element.
double error_of(const Tensor& got, const Tensor& expected, double unit) {
  const double size = largest(expected);
  return largest(got.detach().to(kFloat64) - expected.detach()) / (size > 0 ? size * unit : unit);
}

class AttentionKernels : public ::testing::TestWithParam<std::tuple<DType, KernelCase>> {
 protected:
  // [2, heads, length, features], with the heads of a position adjacent in memory.
  static Tensor numbers(std::int64_t heads, std::int64_t length, std::int64_t features, DType dtype) {
    return randn({2, length, heads, features}, {.device = kDevice}).to(dtype).transpose(1, 2);
  }

  static Tensor mask_of(const KernelCase& c, DType dtype) {
    const TensorOptions here = {.device = kDevice};
    switch (c.mask) {
      case MaskKind::none: return {};
      case MaskKind::bias: return randn({c.heads, c.queries, c.keys}, here).to(dtype);
      case MaskKind::padding:
        return lt(arange(double(c.keys), here),
                  tensor({double(c.keys / 2 + 1), double(c.keys)}).view({2, 1, 1, 1}).to(kDevice));
      default: break;
    }
    Tensor seen = gt(randn({c.queries, c.keys}, here), -0.5);
    seen.select(0, 2).fill_(false);
    return seen;
  }

  static constexpr const char* kDevice = "cuda:0";
  const TestDevices devices_{1};
};

TEST_P(AttentionKernels, GiveWhatTheCompositionGives) {
  const auto& [dtype, c] = GetParam();
  manual_seed(3);
  std::vector<Tensor> x = {numbers(c.heads, c.queries, c.features, dtype), numbers(c.groups, c.keys, c.features, dtype),
                           numbers(c.groups, c.keys, c.out, dtype)};
  const Tensor mask = mask_of(c, dtype);
  std::vector<Tensor> wide;
  for (Tensor& leaf : x) {
    wide.push_back(leaf.to(kFloat64).requires_grad_());
    leaf.requires_grad_();
  }
  const Tensor got = scaled_dot_product_attention(
      x[0], x[1], x[2], {.mask = mask, .is_causal = c.causal, .enable_gqa = c.heads != c.groups});
  ASSERT_EQ(got.dtype(), dtype);
  const Tensor g = numbers(c.heads, c.queries, c.out, dtype);
  got.backward(g);

  AttentionInputs in = {wide[0], wide[1], wide[2], {}, 1 / std::sqrt(double(c.features)), c.causal};
  if (mask.defined()) {
    const TensorOptions here = {.dtype = kFloat64, .device = kDevice};
    in.mask = mask.dtype() == kBool ? where(mask, zeros({}, here), full({}, -kInfinity, here)) : mask.to(kFloat64);
  }
  const Tensor expected = composed_attention(in, 0, {2, c.heads, c.queries, c.keys});
  expected.backward(g.to(kFloat64));
  // Of 16 bits: half a unit in the last place. Weights, gradients of scores, and results are rounded once each;
  // gradients of keys add terms of all queries. Of float32: sums of up to 150 terms in float32.
  const double unit = dtype == kBFloat16 ? 0x1p-9 : dtype == kFloat16 ? 0x1p-12 : 0x1p-20;
  EXPECT_LT(error_of(got, expected, unit), 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(error_of(x[i].grad(), wide[i].grad(), unit), 4) << "input " << i;
}

std::string kernel_case_name(const ::testing::TestParamInfo<std::tuple<DType, KernelCase>>& test) {
  const auto& [dtype, c] = test.param;
  return std::string(dtype == kBFloat16 ? "BFloat16" : dtype == kFloat16 ? "Float16" : "Float32") + c.name;
}

INSTANTIATE_TEST_SUITE_P(, AttentionKernels,
                         ::testing::Combine(::testing::Values(kBFloat16, kFloat16, kFloat32),
                                            ::testing::ValuesIn(kernel_cases())),
                         kernel_case_name);

struct Dropped {
  Tensor y;
  std::vector<Tensor> gradients;
};

Dropped with_dropout(DType dtype, std::int64_t keys, std::int64_t features, const std::optional<BatchShard>& shard,
                     bool composed) {
  const Device device("cuda:0");
  manual_seed(8);
  std::vector<Tensor> x;
  for (const Shape& sizes : {Shape{4, 2, 45, features}, Shape{4, 2, keys, features}, Shape{4, 2, keys, features}}) {
    Tensor whole = randn(sizes, {.device = device}).to(dtype).to(composed ? kFloat32 : dtype);
    x.push_back((shard ? whole.narrow(0, shard->first, shard->count) : whole).clone().requires_grad_());
  }
  Tensor g = randn({4, 2, 45, features}, {.device = device}).to(dtype).to(x[0].dtype());
  if (shard) g = g.narrow(0, shard->first, shard->count);
  GeneratorState shared = current_generator();
  Context replica = {.shard = shard ? &*shard : nullptr, .batch_generator = shard ? &shared : nullptr};
  Tensor y;
  if (shard) {
    const ContextScope scope(replica);
    y = scaled_dot_product_attention(x[0], x[1], x[2], {.dropout = 0.3, .is_causal = true});
  } else {
    y = scaled_dot_product_attention(x[0], x[1], x[2], {.dropout = 0.3, .is_causal = true});
  }
  y.backward(g);
  return {y.detach(), {x[0].grad(), x[1].grad(), x[2].grad()}};
}

// Of float32 inputs the composed operation drops the weights, by dropout().
TEST(AttentionKernelsDropout, DropsTheWeightsThatDropoutDrops) {
  const TestDevices devices(1);
  for (const std::int64_t keys : {64, 71})
    for (const std::int64_t features : {16, 72}) {
      const Dropped got = with_dropout(kBFloat16, keys, features, {}, false),
                    expected = with_dropout(kBFloat16, keys, features, {}, true);
      const auto near = [&](const Tensor& x, const Tensor& y, double room) {
        EXPECT_LT(error_of(x, y.to(kFloat64), 0x1p-9), room) << keys << " keys, " << features << " features";
      };
      near(got.y, expected.y, 4);
      for (std::size_t i = 0; i < 3; ++i) near(got.gradients[i], expected.gradients[i], 6);
    }
}

TEST(AttentionKernelsDropout, DropsTheSameWeightsInAShardOfTheBatch) {
  const TestDevices devices(1);
  const Dropped whole = with_dropout(kFloat16, 71, 16, {}, false);
  const BatchShard shard = {.dim = 0, .first = 1, .count = 2, .total = 4};
  const Dropped part = with_dropout(kFloat16, 71, 16, shard, false);
  expect_same(part.y, whole.y.narrow(0, 1, 2));
  for (std::size_t i = 0; i < 3; ++i) expect_same(part.gradients[i], whole.gradients[i].narrow(0, 1, 2));
}

TEST(AttentionKernelsDropout, HasGradientsOfGradients) {
  const TestDevices devices(1);
  const Device device("cuda:0");
  manual_seed(2);
  std::vector<Tensor> x;
  for (int i = 0; i < 3; ++i) x.push_back(randn({1, 2, 20, 8}, {.device = device}).to(kBFloat16).requires_grad_());
  const auto gradients_with = [&](bool create_graph) {
    manual_seed(9);
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.dropout = 0.5});
    const std::vector<Tensor> roots = {sum(y * y)};
    return gradients(roots, x, {}, {.create_graph = create_graph});
  };
  const std::vector<Tensor> plain = gradients_with(false), recorded = gradients_with(true);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LT(error_of(recorded[i], plain[i].to(kFloat64), 0x1p-9), 8) << i;
    EXPECT_TRUE(recorded[i].requires_grad()) << i;
  }
}

}  // namespace
}  // namespace lockstep
