// Models that PyTorch saved, in both of its formats: the same names and shapes, outputs, gradients and buffers.
// tests/reference/models describes how the files were made.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "models/gpt.h"
#include "models/lenet.h"
#include "models/lstm_classifier.h"
#include "models/resnet.h"
#include "support/test_devices.h"

namespace lockstep::models {
namespace {

using Tensors = std::vector<Tensor>;

std::string file(const std::string& name) { return LOCKSTEP_REFERENCE_MODELS_FOLDER "/" + name; }

// The stored values are float32, so the tolerance is that of float32.
void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  const auto a = got.detach().cpu().to(kFloat64).to_vector<double>(), b = expected.to(kFloat64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-6 * (1 + std::abs(b[i]))) << what << " at " << i;
}

template <class Model>
void expect_names_and_shapes(Model& model, const StateDict& stored) {
  const StateDict own = model.state_dict();
  ASSERT_EQ(own.size(), stored.size());
  auto theirs = stored.begin();
  for (const auto& [name, tensor] : own) {
    EXPECT_EQ(name, theirs->first);
    EXPECT_EQ(tensor.sizes(), theirs->second.sizes()) << name;
    EXPECT_EQ(tensor.dtype(), theirs->second.dtype()) << name;
    ++theirs;
  }
}

// `run(model, inputs)` returns the outputs.
template <class Model, class Run>
void expect_as_pytorch(const std::string& name, Model model, const Run& run) {
  const StateDict state = load(file(name + ".pt")), same = load(file(name + ".safetensors"));
  expect_names_and_shapes(model, state);
  ASSERT_EQ(state.size(), same.size());
  for (const auto& [key, tensor] : state) expect_close(tensor, same.at(key), std::string(key));
  const StateDict expected = load(file(name + ".case.safetensors"));

  const TestDevices devices(1);
  for (const Device device : {Device("cpu"), Device("cuda:0")}) {
    SCOPED_TRACE(std::string(device.is_cpu() ? "cpu" : "cuda:0"));
    Model fresh = copy(model);
    fresh.load_state_dict(device.is_cpu() ? state : same);
    fresh.to(kFloat64);
    fresh.to(device);
    fresh.train();
    const auto given = [&](const std::string& key, std::size_t i) {
      const Tensor* const stored = expected.find(key + "." + std::to_string(i));
      return stored ? stored->to(device, is_floating(stored->dtype()) ? kFloat64 : stored->dtype()) : Tensor();
    };
    Tensors inputs, seeds;
    for (std::size_t i = 0; given("input", i).defined(); ++i) {
      inputs.push_back(given("input", i));
      if (is_floating(inputs.back().dtype())) inputs.back().requires_grad_();
    }
    const Tensors outputs = run(fresh, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      expect_close(outputs[i], given("output", i).cpu(), "output " + std::to_string(i));
      seeds.push_back(given("seed", i));
    }
    backward(outputs, seeds);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (given("grad.input", i).defined())
        expect_close(inputs[i].grad(), given("grad.input", i).cpu(), "gradient of input " + std::to_string(i));
    std::size_t compared = 0;
    for (const auto& [key, parameter] : fresh.named_parameters()) {
      expect_close(parameter.grad(), expected.at("grad." + key), "gradient of " + key);
      ++compared;
    }
    EXPECT_GT(compared, 0u);
    for (const auto& [key, buffer] : fresh.state_dict())
      if (const Tensor* const after = expected.find("after." + key))
        expect_close(buffer, *after, std::string(key) + " afterwards");
    const NoGrad guard;
    fresh.eval();
    for (Tensor& input : inputs) input = input.detach();
    expect_close(run(fresh, inputs)[0], expected.at("eval.0"), "in evaluation");
  }
}

Tensors only(const Tensor& output) { return {output}; }

TEST(PyTorchModels, LeNet) {
  expect_as_pytorch("lenet", LeNet(1, 16, 10), [](LeNet& model, const Tensors& x) { return only(model(x[0])); });
}

TEST(PyTorchModels, ResNet18) {
  expect_as_pytorch("resnet18", ResNet18<>(10, 2),
                    [](ResNet18<>& model, const Tensors& x) { return only(model(x[0])); });
}

TEST(PyTorchModels, Gpt) {
  expect_as_pytorch("gpt", Gpt({.vocabulary = 16, .length = 8, .width = 16, .heads = 2, .layers = 2}),
                    [](Gpt& model, const Tensors& x) { return only(model(x[0])); });
}

TEST(PyTorchModels, LstmClassifier) {
  expect_as_pytorch("lstm_classifier", LstmClassifier(3, 8, 4, 2),
                    [](LstmClassifier& model, const Tensors& x) { return only(model(x[0])); });
}

TEST(PyTorchModels, Gru) {
  expect_as_pytorch("gru", nn::GRU(3, 6, {.num_layers = 2, .batch_first = true, .bidirectional = true}),
                    [](nn::GRU& model, const Tensors& x) {
                      const auto out = model(x[0]);
                      return Tensors{out.output, out.h};
                    });
}

TEST(PyTorchModels, MultiheadAttention) {
  expect_as_pytorch("multihead_attention", nn::MultiheadAttention(8, 2, {.batch_first = true}),
                    [](nn::MultiheadAttention& model, const Tensors& x) {
                      const auto out = model(x[0], x[1], x[2]);
                      return Tensors{out.output, out.weights};
                    });
}

TEST(PyTorchModels, TransformerEncoderLayer) {
  expect_as_pytorch("transformer_encoder_layer",
                    nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 16, .dropout = 0, .batch_first = true}),
                    [](nn::TransformerEncoderLayer& model, const Tensors& x) { return only(model(x[0])); });
}

}  // namespace
}  // namespace lockstep::models
