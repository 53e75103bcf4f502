// Layers: their results, state and errors.
#include <lockstep/nn/layers.h>

#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

TEST(Linear, ComputesRowsTimesItsWeight) {
  nn::Linear layer(3, 2, {.tensor = {.dtype = kFloat64}});
  const Tensor x = randn({4, 3}, {.dtype = kFloat64});
  const auto rows = values(x), weight = values(layer.weight), bias = values(*layer.bias), got = values(layer(x));
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t o = 0; o < 2; ++o) {
      double expected = bias[o];
      for (std::size_t i = 0; i < 3; ++i) expected += rows[r * 3 + i] * weight[o * 3 + i];
      EXPECT_NEAR(got[r * 2 + o], expected, 1e-12);
    }
}

TEST(Linear, TakesAnyLeadingDimensions) {
  nn::Linear layer(3, 2);
  EXPECT_EQ(layer(zeros({3})).sizes(), (Shape{2}));
  EXPECT_EQ(layer(zeros({5, 4, 3})).sizes(), (Shape{5, 4, 2}));
  EXPECT_EQ(layer(zeros({0, 3})).sizes(), (Shape{0, 2}));
  EXPECT_THROW(layer(zeros({4, 2})), ShapeError);
  EXPECT_THROW(layer(zeros({4, 3}, {.dtype = kFloat64})), DTypeError);
}

TEST(Linear, StartsWithinItsBounds) {
  const TestDevices devices(1);
  const nn::Linear layer(25, 1000, {.tensor = {.device = "cuda:0"}});
  double least = 1, most = -1;
  for (const double w : values(layer.weight)) least = std::min(least, w), most = std::max(most, w);
  EXPECT_GE(least, -0.2);
  EXPECT_LT(most, 0.2);
  EXPECT_LT(least, -0.19);
  EXPECT_GT(most, 0.19);
  EXPECT_EQ(layer.bias->device(), Device("cuda:0"));
}

TEST(Linear, DoesWithoutBiasAndWithoutFeatures) {
  nn::Linear layer(3, 2, {.bias = false});
  EXPECT_EQ(layer.parameters().size(), 1u);
  EXPECT_EQ(values(layer(zeros({1, 3}))), (std::vector<double>{0, 0}));
  EXPECT_EQ(values(nn::Linear(0, 2)(zeros({3, 0}))), std::vector<double>(6, 0));
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::Linear(3, -1); }), "[Linear] expected sizes of at least 0, got 3 and -1");
}

TEST(Linear, SaysWhatToDoWithABatchThatDoesNotFit) {
  nn::Linear layer(12, 2);
  EXPECT_EQ(
      thrown<ShapeError>([&] {
        layer(zeros({5, 1, 3, 4}));
      }),
      "[linear] expected x [..., in] and a weight [out, in], got [5, 1, 3, 4] and [2, 12]: x fits when it is flat, "
      "as flatten(x, 1)");
  EXPECT_EQ(thrown<ShapeError>([&] {
              layer(zeros({5, 11}));
            }),
            "[linear] expected x [..., in] and a weight [out, in], got [5, 11] and [2, 12]");
}

TEST(Layers, SayWhichOfBatchAndModuleToMove) {
  const TestDevices devices(2);
  nn::Linear layer(3, 2);
  EXPECT_EQ(
      thrown<DeviceMismatch>([&] {
        layer(zeros({4, 3}, {.device = "cuda:1"}));
      }),
      "[linear] expected tensors on one device, got cuda:1 [4, 3] and cpu [2, 3]: the parameter is on the CPU; move "
      "its module with .to(Device::cuda(1)) (a parameter stays where it was made unless members() names its "
      "layer)");
  layer.to("cuda:1");
  for (const char* device : {"cpu", "cuda:0"})
    EXPECT_EQ(thrown<DeviceMismatch>([&] {
                layer(zeros({4, 3}, {.device = device}));
              }),
              std::string("[linear] expected tensors on one device, got ") + device +
                  " [4, 3] and cuda:1 [2, 3]: move the input to the parameter's device: x = x.to(Device::cuda(1))");
  nn::Embedding words(5, 2);
  words.to("cuda:0");
  EXPECT_EQ(
      thrown<DeviceMismatch>([&] { words(zeros({4}, {.dtype = kInt64})); }),
      "[embedding] expected tensors on one device, got cuda:0 [5, 2] and cpu [4]: move the input to the parameter's "
      "device: x = x.to(Device::cuda(0))");
}

TEST(LazyLinear, TakesItsShapeFromTheFirstBatch) {
  const TestDevices devices(1);
  nn::LazyLinear layer(2);
  EXPECT_EQ(thrown<InvalidArgument>([&] { layer.parameters(); }),
            "[parameters] expected \"weight\" to have a shape, got a lazy one: run one batch first");
  EXPECT_THROW(layer.state_dict(), InvalidArgument);
  EXPECT_THROW(layer(tensor(1.)), ShapeError);
  layer.to("cuda:0");
  EXPECT_EQ(layer(zeros({4, 3}, {.dtype = kFloat64, .device = "cuda:0"})).sizes(), (Shape{4, 2}));
  EXPECT_EQ(layer.weight.sizes(), (Shape{2, 3}));
  EXPECT_EQ(layer.weight.dtype(), kFloat64);
  EXPECT_EQ(layer.bias->device(), Device("cuda:0"));
  EXPECT_TRUE(layer.weight.requires_grad());
  EXPECT_THROW(layer(zeros({4, 5}, {.dtype = kFloat64, .device = "cuda:0"})), ShapeError);
}

TEST(LazyLinear, TakesItsShapeFromAStateDict) {
  nn::Linear full(3, 2);
  nn::LazyLinear layer(2);
  layer.load_state_dict(full.state_dict());
  EXPECT_TRUE(layer.weight.requires_grad());
  EXPECT_EQ(values(layer(ones({1, 3}))), values(full(ones({1, 3}))));
}

TEST(LazyLinear, RefusesTheWeightOfAnotherLayer) {
  nn::LazyLinear layer(5);
  EXPECT_EQ(thrown<InvalidArgument>([&] { layer.load_state_dict(nn::Linear(3, 2).state_dict()); }),
            "[load_state_dict] expected the keys and shapes of the module, got:"
            "\n  shape of weight: expected [5, -1], got [2, 3]"
            "\n  shape of bias: expected [5], got [2]");
  EXPECT_FALSE(layer.weight.defined());
  nn::LazyLinear copy(layer);
  EXPECT_THROW(copy.load_state_dict(nn::Linear(3, 2).state_dict()), InvalidArgument);
  copy.load_state_dict(nn::Linear(3, 5).state_dict());
  EXPECT_EQ(copy(ones({1, 3})).sizes(), (Shape{1, 5}));
}

TEST(LazyLinear, IsLazyInEachCopy) {
  nn::LazyLinear first(2), second(first);
  first(zeros({1, 3}));
  second(zeros({1, 5}));
  EXPECT_EQ(first.weight.sizes(), (Shape{2, 3}));
  EXPECT_EQ(second.weight.sizes(), (Shape{2, 5}));
}

TEST(ReLULayer, KeepsThePositive) {
  EXPECT_EQ(values(nn::ReLU()(tensor({-1.5, 0., 2.}))), (std::vector<double>{0, 0, 2}));
}

TEST(ActivationLayers, ComputeTheirFunctions) {
  const Tensor x = randn({4, 3}, {.dtype = kFloat64});
  const auto expect = [&](nn::AnyModule layer, const Tensor& expected) {
    EXPECT_EQ(values(nn::AnyModule(layer).forward(x)), values(expected));
    EXPECT_TRUE(layer.state_dict().empty());
  };
  expect(nn::Identity(), x);
  expect(nn::LeakyReLU(0.2), leaky_relu(x, 0.2));
  expect(nn::ELU(0.5), elu(x, 0.5));
  expect(nn::SELU(), selu(x));
  expect(nn::GELU(), gelu(x));
  expect(nn::GELU(GeluForm::tanh), gelu(x, GeluForm::tanh));
  expect(nn::SiLU(), silu(x));
  expect(nn::Mish(), mish(x));
  expect(nn::Hardtanh(-0.5, 0.25), hardtanh(x, -0.5, 0.25));
  expect(nn::Hardswish(), hardswish(x));
  expect(nn::Softplus({.beta = 2, .threshold = 1}), softplus(x, {.beta = 2, .threshold = 1}));
  expect(nn::Sigmoid(), sigmoid(x));
  expect(nn::Tanh(), tanh(x));
  expect(nn::Softmax(0), softmax(x, 0));
  expect(nn::LogSoftmax(-1), log_softmax(x, -1));
}

TEST(LayerNormLayer, NormalizesEachSample) {
  nn::LayerNorm layer({3, 2});
  EXPECT_EQ(layer.state_dict().size(), 2u);
  const Tensor x = randn({4, 3, 2});
  EXPECT_EQ(values(layer(x)), values(layer_norm(x, {3, 2})));
  uniform_(*layer.weight, 0, 1), uniform_(*layer.bias, 0, 1);
  EXPECT_EQ(values(layer(x)), values(layer_norm(x, {3, 2}, *layer.weight, *layer.bias)));
  EXPECT_EQ(nn::LayerNorm({3}, {.bias = false}).parameters().size(), 1u);
  EXPECT_EQ(nn::LayerNorm({3}, {.affine = false}).parameters().size(), 0u);
  EXPECT_EQ(values(nn::LayerNorm({2}, {.eps = 4})(x)), values(layer_norm(x, {2}, {}, {}, 4)));
  EXPECT_THROW(layer(randn({4, 3})), ShapeError);
  EXPECT_THROW(nn::LayerNorm(Shape{}), ShapeError);
  EXPECT_THROW(nn::LayerNorm({-1}), ShapeError);
}

TEST(GroupNormLayer, NormalizesEachGroupOfChannels) {
  nn::GroupNorm layer(2, 6, {.eps = 0.5, .tensor = {.dtype = kFloat64}});
  const Tensor x = randn({4, 6, 5}, {.dtype = kFloat64});
  EXPECT_EQ(values(layer(x)), values(group_norm(x, 2, {}, {}, 0.5)));
  uniform_(*layer.weight, 0, 1), uniform_(*layer.bias, 0, 1);
  EXPECT_EQ(values(layer(x)), values(group_norm(x, 2, *layer.weight, *layer.bias, 0.5)));
  EXPECT_THROW(layer(randn({4, 4, 5}, {.dtype = kFloat64})), ShapeError);
  EXPECT_THROW(layer(randn({6}, {.dtype = kFloat64})), ShapeError);
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::GroupNorm(4, 6); }),
            "[GroupNorm] expected groups that divide the channels, got 4 groups of 6 channels");
}

TEST(EmbeddingLayer, LooksRowsUp) {
  const TestDevices devices(1);
  nn::Embedding layer(5, 3, {.padding_idx = -1, .tensor = {.device = "cuda:0"}});
  EXPECT_EQ(layer.state_dict().size(), 1u);
  const Tensor index = tensor({{1, 4}, {0, 1}}).cuda();
  EXPECT_EQ(layer(index).sizes(), (Shape{2, 2, 3}));
  EXPECT_EQ(values(layer(index).select(0, 1)),
            values(cat({layer.weight.narrow(0, 0, 1), layer.weight.narrow(0, 1, 1)})));
  EXPECT_EQ(values(layer.weight.select(0, 4)), (std::vector<double>{0, 0, 0}));
  sum(layer(index)).backward();
  EXPECT_EQ(values(layer.weight.grad().select(1, 0)), (std::vector<double>{1, 2, 0, 0, 0}));
  EXPECT_THROW(nn::Embedding(-1, 3), InvalidArgument);
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::Embedding(5, 3, {.padding_idx = 5}); }),
            "[Embedding] expected padding_idx in [-5, 5), got 5");
}

TEST(FlattenLayer, KeepsTheBatch) {
  EXPECT_EQ(nn::Flatten()(zeros({2, 3, 4})).sizes(), (Shape{2, 12}));
  EXPECT_EQ(nn::Flatten(0, 1)(zeros({2, 3, 4})).sizes(), (Shape{6, 4}));
}

TEST(DropoutLayer, DropsInTrainingOnly) {
  nn::Dropout layer(0.5);
  const Tensor x = ones({100});
  manual_seed(2);
  const std::vector<double> dropped = values(layer(x));
  manual_seed(2);
  EXPECT_EQ(dropped, values(dropout(x, 0.5)));
  layer.eval();
  EXPECT_TRUE(layer(x).is_same(x));
  EXPECT_THROW(nn::Dropout(1.5), InvalidArgument);
}

TEST(BatchNorm1d, KeepsRunningStatisticsByPyTorchsNames) {
  nn::BatchNorm1d layer(2, {.momentum = 0.5});
  layer(tensor({{1., 0.}, {3., 4.}}));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : layer.state_dict()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(values(*layer.running_mean), (std::vector<double>{1, 1}));     // half of 0, half of 2
  EXPECT_EQ(values(*layer.running_var), (std::vector<double>{1.5, 4.5}));  // half of 1, half of 2 and 8
  EXPECT_EQ(layer.num_batches_tracked->item<int>(), 1);
}

TEST(BatchNorm1d, UsesThemInEvaluation) {
  nn::BatchNorm1d layer(1, {.eps = 0});
  layer.running_mean->fill_(3);
  layer.running_var->fill_(4);
  layer.eval();
  EXPECT_EQ(values(layer(tensor({{5.}, {3.}}))), (std::vector<double>{1, 0}));
  EXPECT_EQ(layer.num_batches_tracked->item<int>(), 0);
  nn::BatchNorm1d bare(1, {.eps = 0, .affine = false, .track_running_stats = false});
  bare.eval();
  EXPECT_EQ(values(bare(tensor({{5.}, {3.}}))), (std::vector<double>{1, -1}));
  EXPECT_TRUE(bare.state_dict().size() == 0);
}

TEST(BatchNorm1d, RefusesWhatDoesNotFit) {
  EXPECT_THROW(nn::BatchNorm1d(-1), InvalidArgument);
  nn::BatchNorm1d layer(2);
  EXPECT_THROW(layer(ones({4})), ShapeError);
  EXPECT_THROW(layer(ones({4, 3})), ShapeError);
  EXPECT_THROW(layer(ones({4, 2, 1, 1})), ShapeError);
  EXPECT_THROW(layer(ones({1, 2})), ShapeError);
  EXPECT_EQ(layer.num_batches_tracked->item<int>(), 0);
}

}  // namespace
}  // namespace lockstep
