// Attention layers against PyTorch: tests/reference/transformers.py describes how its file was made.
#include <gtest/gtest.h>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/transformer.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "reference/data.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep {
namespace {

using testing::thrown;

const nn::TransformerLayerOptions kSmall = {.dim_feedforward = 12, .dropout = 0, .tensor = {.dtype = kFloat64}};

class Transformers : public ::testing::Test {
 protected:
  const TestDevices devices_{1};
  static const std::map<std::string, Tensor>& stored() {
    static const auto tensors = reference::read_tensors(reference::folder() + "/transformers.safetensors");
    return tensors;
  }

  // Expects that the layer with PyTorch's parameters, on a device, gives PyTorch's results and gradients.
  template <class Layer, class CallLayer>
  void expect_agrees(const std::string& name, Layer& layer, std::size_t inputs, const CallLayer& call) {
    const Device device = "cuda:0";
    const std::string state = name + "/state/";
    StateDict dict;
    for (const auto& [key, value] : stored())
      if (key.starts_with(state)) dict.add(key.substr(state.size()), value);
    layer.load_state_dict(dict);
    layer.to(device);
    const auto get = [&](const std::string& key) { return stored().at(name + "/" + key).to(device); };
    std::vector<Tensor> x, seeds;
    for (std::size_t i = 0; i < inputs; ++i) x.push_back(get("in" + std::to_string(i)).detach().requires_grad_());
    const std::vector<Tensor> outputs = call(x);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      expect_close("output", outputs[i], get("out" + std::to_string(i)));
      seeds.push_back(get("seed" + std::to_string(i)));
    }
    backward(outputs, seeds);
    for (std::size_t i = 0; i < inputs; ++i) expect_close("input", x[i].grad(), get("in_gradient" + std::to_string(i)));
    for (const auto& [key, parameter] : layer.named_parameters())
      expect_close(key, parameter.grad(), get("gradient/" + key));
  }

  static void expect_close(const std::string& what, const Tensor& got, const Tensor& expected) {
    ASSERT_EQ(got.sizes(), expected.sizes()) << what;
    EXPECT_LT(max(abs(got.detach() - expected)).item<double>(), 1e-11) << what;
  }

  const Tensor hidden_ = triu(ones({3, 3}), 1).cuda() > 0;
  const Tensor padding_ = tensor({{false, false, true}, {false, false, false}}).cuda();
};

TEST_F(Transformers, AttentionToItself) {
  nn::MultiheadAttention layer(6, 2, {.batch_first = true, .tensor = {.dtype = kFloat64}});
  const auto call = [&](bool weights) {
    return [&, weights](const std::vector<Tensor>& x) {
      const auto [output, by_query] = layer.forward(
          x[0], x[0], x[0], {.key_padding_mask = padding_, .attn_mask = hidden_, .need_weights = weights});
      return weights ? std::vector{output, by_query} : std::vector{output};
    };
  };
  expect_agrees("self", layer, 1, call(true));
}

TEST_F(Transformers, AttentionToKeysAndValuesOfOtherSizes) {
  nn::MultiheadAttention layer(
      6, 3, {.add_bias_kv = true, .add_zero_attn = true, .kdim = 5, .vdim = 4, .tensor = {.dtype = kFloat64}});
  expect_agrees("cross", layer, 3, [&](const std::vector<Tensor>& x) {
    return std::vector{layer.forward(x[0], x[1], x[2], {.key_padding_mask = padding_, .need_weights = false}).output};
  });
}

TEST_F(Transformers, AttentionToAMemoryWithWeightsOfEachHead) {
  nn::MultiheadAttention layer(6, 2, {.batch_first = true, .tensor = {.dtype = kFloat64}});
  expect_agrees("memory", layer, 2, [&](const std::vector<Tensor>& x) {
    const auto [output, weights] = layer.forward(x[0], x[1], x[1], {.average_attn_weights = false});
    return std::vector{output, weights};
  });
}

TEST_F(Transformers, DecoderLayer) {
  nn::TransformerLayerOptions options = kSmall;
  options.activation = [](const Tensor& x) { return gelu(x); };
  options.batch_first = options.norm_first = true;
  nn::TransformerDecoderLayer layer(8, 2, options);
  expect_agrees("decoder", layer, 2, [&](const std::vector<Tensor>& x) {
    return std::vector{layer.forward(x[0], x[1], {.memory_key_padding_mask = padding_, .tgt_is_causal = true})};
  });
}

TEST_F(Transformers, EncoderAndDecoder) {
  nn::Transformer model(8, 2,
                        {.num_encoder_layers = 2,
                         .num_decoder_layers = 2,
                         .dim_feedforward = 12,
                         .dropout = 0,
                         .tensor = {.dtype = kFloat64}});
  expect_agrees("transformer", model, 2,
                [&](const std::vector<Tensor>& x) { return std::vector{model(x[0], x[1], {.tgt_is_causal = true})}; });
}

TEST(TransformerLayers, AreCopiesOfOne) {
  nn::TransformerEncoder encoder(nn::TransformerEncoderLayer(4, 2, kSmall), 2);
  EXPECT_EQ(max(abs(encoder.layers[0].linear1.weight - encoder.layers[1].linear1.weight)).item<double>(), 0);
  EXPECT_FALSE(encoder.layers[0].linear1.weight.is_same(encoder.layers[1].linear1.weight));
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::TransformerEncoder(nn::TransformerEncoderLayer(4, 2), -1); }),
            "[TransformerEncoder] expected at least 0 layers, got -1");
}

TEST(MultiheadAttentionLayer, WorksWithoutABatch) {
  nn::MultiheadAttention layer(4, 2, {.batch_first = true});
  const Tensor x = randn({3, 4});
  const auto [output, weights] = layer(x, x, x);
  const Tensor batch = x.unsqueeze(0);
  const auto [expected, by_query] = layer(batch, batch, batch);
  EXPECT_EQ(output.sizes(), (Shape{3, 4}));
  EXPECT_EQ(weights.sizes(), (Shape{3, 3}));
  EXPECT_EQ(max(abs(output - expected[0])).item<double>(), 0);
}

TEST(MultiheadAttentionLayer, RefusesWhatDoesNotFit) {
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::MultiheadAttention(5, 2); }),
            "[MultiheadAttention] expected heads that divide the features, got 2 heads of 5 features");
  nn::MultiheadAttention layer(4, 2);
  const Tensor x = zeros({3, 2, 4});
  EXPECT_EQ(thrown<ShapeError>([&] {
              layer.forward(x, x, x, {.attn_mask = zeros({3, 2})});
            }),
            "[MultiheadAttention] expected attn_mask [3, 3] or [4, 3, 3], got [3, 2]");
  EXPECT_EQ(thrown<ShapeError>([&] {
              layer.forward(x, x, x, {.key_padding_mask = zeros({3, 2})});
            }),
            "[MultiheadAttention] expected key_padding_mask [2, 3], got [3, 2]");
}

}  // namespace
}  // namespace lockstep
