// nn::LayerNorm behind a residual connection.
#include <gtest/gtest.h>

#include <vector>

#include <lockstep/nn/layer_norm.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/random.h>

#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

TEST(LayerNormAfterAdd, CallsTheHooksOfTheLayer) {
  nn::LayerNorm layer(8);
  const Tensor x = randn({3, 8}), branch = randn({3, 8});
  const SumAndNorm plain = layer.after_add(x, branch);
  EXPECT_EQ(values(plain.norm), values(layer(x + branch)));
  std::vector<double> seen;
  const HookHandle hook = layer.register_forward_hook([&](nn::ModuleBase&, const Tensor& input, Tensor& output) {
    seen = values(input);
    output = output * 2.0;
  });
  const SumAndNorm hooked = layer.after_add(x, branch);
  EXPECT_EQ(seen, values(plain.sum));
  EXPECT_EQ(values(hooked.norm), values(plain.norm * 2.0));
}

}  // namespace
}  // namespace lockstep
