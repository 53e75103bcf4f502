// Fused operations of transformer layers. Values: tests/reference/transformers_test.cpp.
#include <lockstep/nn/transformer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/runtime/trace.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

TEST(TransformerActivation, IsAFunctionOrATextOfPyTorch) {
  nn::TransformerEncoderLayer named(4, 2, {.dropout = 0, .activation = "gelu"});
  nn::TransformerEncoderLayer given(4, 2, {.dropout = 0, .activation = [](const Tensor& x) { return gelu(x); }});
  given.load_state_dict(named.state_dict());
  const Tensor x = randn({3, 2, 4});
  EXPECT_EQ(values(named(x)), values(given(x)));
  EXPECT_EQ(testing::thrown<InvalidArgument>([] { nn::TransformerEncoderLayer(4, 2, {.activation = "selu"}); }),
            "[Transformer] expected the activation \"relu\", \"gelu\" or a function, got \"selu\"");
}

TEST(TransformerCalls, TakeMasksInBraces) {
  const nn::TransformerOptions small = {
      .num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 16, .batch_first = true};
  nn::Transformer model(8, 2, small);
  model.eval();
  const Tensor src = randn({2, 5, 8}), tgt = randn({2, 4, 8});
  const Tensor causal = nn::Transformer::generate_square_subsequent_mask(4, {.dtype = kFloat64});
  EXPECT_EQ(causal.dtype(), kFloat64);
  const Tensor padding = tensor({{false, false, false, true, true}, {false, false, false, false, false}});
  const Tensor out = model(
      src, tgt, {.tgt_mask = causal.to(kFloat32), .src_key_padding_mask = padding, .memory_key_padding_mask = padding});
  const Tensor memory = model.encoder(src, {.src_key_padding_mask = padding});
  EXPECT_EQ(values(out),
            values(model.decoder(tgt, memory, {.tgt_mask = causal.to(kFloat32), .memory_key_padding_mask = padding})));
  const Tensor shorter = src[0].narrow(0, 0, 3).unsqueeze(0);
  EXPECT_LT(max(abs(out[0] - model(shorter, tgt[0].unsqueeze(0), {.tgt_is_causal = true})[0])).item<float>(), 1e-5);
  nn::MultiheadAttention attention(8, 2, {.batch_first = true});
  EXPECT_FALSE(attention(src, src, src, {.need_weights = false}).weights.defined());
}

std::ptrdiff_t relus_of(nn::TransformerEncoderLayer& layer, const Tensor& x) {
  synchronize(Device::cuda(0));
  const Trace trace;
  layer(x);
  synchronize(Device::cuda(0));
  return std::ranges::count(trace.events(), "relu", &TraceEvent::name);
}

TEST(TransformerEncoderLayer, DoesReluWithTheProductWhereNothingIsRecorded) {
  const SimulatedDevices devices({.count = 1});
  nn::TransformerLayerOptions options = {.dim_feedforward = 16};
  nn::TransformerEncoderLayer known(8, 2, options);
  options.activation = [](const Tensor& x) { return relu(x); };  // an unknown function, which cannot be fused
  nn::TransformerEncoderLayer unknown(8, 2, options);
  unknown.load_state_dict(known.state_dict());
  for (nn::TransformerEncoderLayer* layer : {&known, &unknown}) layer->to(Device::cuda(0)), layer->eval();
  const Tensor x = randn({5, 3, 8}).cuda();
  EXPECT_EQ(relus_of(known, x), 1);
  const NoGrad guard;
  EXPECT_EQ(relus_of(known, x), 0);
  EXPECT_EQ(relus_of(unknown, x), 1);
  const std::vector<double> got = values(known(x)), expected = values(unknown(x));
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
}

}  // namespace
}  // namespace lockstep
