// More activation layers: they compute their functions, with their options.
#include <lockstep/nn/activations.h>
#include <lockstep/nn/gated_activations.h>

#include <gtest/gtest.h>

#include <lockstep/nn/sequential.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/thrown.h"
#include "support/values.h"

namespace lockstep::activation_layers {
namespace {

using testing::thrown;
using testing::values;

TEST(MoreActivationLayers, ComputeTheirFunctions) {
  const Tensor x = randn({4, 6, 2});
  const auto expect = [&](nn::Sequential layer, const Tensor& y) { EXPECT_EQ(values(layer(x)), values(y)); };
  expect(nn::Sequential(nn::CELU(1.5)), celu(x, 1.5));
  expect(nn::Sequential(nn::ReLU6()), relu6(x));
  expect(nn::Sequential(nn::Hardsigmoid()), hardsigmoid(x));
  expect(nn::Sequential(nn::LogSigmoid()), logsigmoid(x));
  expect(nn::Sequential(nn::Softsign()), softsign(x));
  expect(nn::Sequential(nn::Hardshrink(0.3)), hardshrink(x, 0.3));
  expect(nn::Sequential(nn::Softshrink(0.3)), softshrink(x, 0.3));
  expect(nn::Sequential(nn::Tanhshrink()), tanhshrink(x));
  expect(nn::Sequential(nn::Threshold(0.1, 20)), threshold(x, 0.1, 20));
  expect(nn::Sequential(nn::GLU(1)), glu(x, 1));
  expect(nn::Sequential(nn::PReLU(6)), leaky_relu(x, 0.25));
  expect(nn::Sequential(nn::Softmin(1)), softmin(x, 1));
  expect(nn::Sequential(nn::Softmax2d()), softmax(x, 0));
}

TEST(RReLU, DrawsInTrainingAlone) {
  nn::RReLU layer(0.1, 0.3);
  const Tensor x = randn({4, 6});
  layer.eval();
  EXPECT_EQ(values(layer(x)), values(leaky_relu(x, (0.1 + 0.3) / 2)));
  layer.train();
  EXPECT_NE(values(layer(x)), values(layer(x)));
}

TEST(PReLU, HoldsItsWeightUnderPyTorchsName) {
  const nn::PReLU layer(3, {.init = 0.5});
  EXPECT_EQ(values(layer.state_dict().at("weight")), (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::PReLU none(0); }), "[PReLU] expected a count of at least 1, got 0");
}

TEST(Softmax2d, RefusesOtherRanks) {
  nn::Softmax2d layer;
  EXPECT_EQ(thrown<ShapeError>([&] {
              layer(zeros({2, 3}));
            }),
            "[Softmax2d] expected x [batch, channels, height, width] or [channels, height, width], got [2, 3]");
}

}  // namespace
}  // namespace lockstep::activation_layers
