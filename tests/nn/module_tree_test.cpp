// The tree of a module's submodules, and hooks on its calls.
#include <gtest/gtest.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/conv.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/pooling.h>
#include <lockstep/nn/recurrent.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::module_tree {
namespace {

using testing::thrown;
using Names = std::vector<std::string>;

struct Block : nn::Module<Block> {
  nn::Linear fc{2, 2};
  nn::BatchNorm1d norm{2};
  auto members() { return nn::members("fc", fc, "norm", norm); }
  Tensor forward(const Tensor& x) { return norm(fc(x)); }
};

struct Net : nn::Module<Net> {
  std::vector<Block> blocks = std::vector<Block>(2);
  nn::Sequential head{nn::Linear(2, 3), nn::ReLU()};
  auto members() { return nn::members("blocks", blocks, "head", head); }
  Tensor forward(Tensor x) {
    for (Block& block : blocks) x = block(x);
    return head(x);
  }
};

Names names_of(const std::vector<nn::ModuleBase::NamedModule>& modules) {
  Names names;
  for (const auto& [name, module] : modules) names.push_back(name);
  return names;
}

TEST(ModuleTree, NamesModulesAndChildren) {
  Net net;
  EXPECT_EQ(names_of(net.named_modules()), (Names{"", "blocks.0", "blocks.0.fc", "blocks.0.norm", "blocks.1",
                                                  "blocks.1.fc", "blocks.1.norm", "head", "head.0", "head.1"}));
  EXPECT_EQ(names_of(net.named_children()), (Names{"blocks.0", "blocks.1", "head"}));
  EXPECT_EQ(net.modules().size(), 10u);
  EXPECT_EQ(net.modules()[1], &net.blocks[0]);
  EXPECT_EQ(net.children()[2], &net.head);
  EXPECT_TRUE(nn::Linear(1, 1).children().empty());
}

TEST(ModuleTree, FindsModulesOfAType) {
  Net net;
  int norms = 0;
  for (nn::ModuleBase* module : net.modules())
    if (auto* norm = module->as<nn::BatchNorm1d>()) norm->eval(), ++norms;
  EXPECT_EQ(norms, 2);
  EXPECT_FALSE(net.blocks[1].norm.is_training());
  EXPECT_TRUE(net.is_training());
}

TEST(ModuleTree, AppliesAFunctionToPartsBeforeWholes) {
  Net net;
  std::vector<nn::ModuleBase*> order;
  net.apply([&](nn::ModuleBase& module) { order.push_back(&module); });
  ASSERT_EQ(order.size(), 10u);
  EXPECT_EQ(order[0], &net.blocks[0].fc);
  EXPECT_EQ(order[1], &net.blocks[0].norm);
  EXPECT_EQ(order[2], &net.blocks[0]);
  EXPECT_EQ(order[8], &net.head);
  EXPECT_EQ(order[9], &net);
  EXPECT_THROW(net.apply(nullptr), InvalidArgument);
}

TEST(ModuleTree, ListsBuffers) {
  Net net;
  EXPECT_EQ(net.buffers().size(), 6u);
  EXPECT_EQ(net.named_buffers()[1].first, "blocks.0.norm.running_var");
  EXPECT_TRUE(net.buffers()[0].is_same(*net.blocks[0].norm.running_mean));
}

TEST(ModuleTree, KnowsItsDevice) {
  const TestDevices devices(1);
  Net net;
  EXPECT_EQ(net.device(), Device("cpu"));
  net.to("cuda:0");
  EXPECT_EQ(net.device(), Device("cuda:0"));
  EXPECT_THROW(nn::ReLU().device(), InvalidArgument);
}

TEST(ModuleTree, IsFrozenAndThawed) {
  Net net;
  net.blocks[0].requires_grad_(false);
  net(ones({2, 2})).sum().backward();
  EXPECT_FALSE(net.blocks[0].fc.weight.grad().defined());
  EXPECT_TRUE(net.blocks[1].fc.weight.grad().defined());
  net.requires_grad_();
  for (const Tensor& parameter : net.parameters()) EXPECT_TRUE(parameter.requires_grad());
  EXPECT_THROW(nn::LazyLinear(2).requires_grad_(false), InvalidArgument);
}

TEST(ForwardHooks, SeeAndReplaceOutputsUntilTheyAreRemoved) {
  nn::Sequential net(nn::Linear(2, 2), nn::ReLU(), nn::Linear(2, 1));
  const Tensor x = tensor({{1., -3.}}).to(kFloat32);
  const Tensor before = net(x);
  Tensor input, features;
  const HookHandle first = net[0].register_forward_hook([&](nn::ModuleBase&, const Tensor& in, const Tensor& out) {
    input = in;
    features = out.detach();
  });
  EXPECT_EQ(net(x).item<float>(), before.item<float>());
  EXPECT_TRUE(input.is_same(x));
  EXPECT_EQ(features.sizes(), (Shape{1, 2}));
  const HookHandle second =
      net.register_forward_hook([](nn::ModuleBase&, const Tensor&, Tensor& out) { out = out * 0 + 7; });
  EXPECT_EQ(net(x).item<float>(), 7);
  second.remove();
  first.remove();
  features = Tensor();
  EXPECT_EQ(net(x).item<float>(), before.item<float>());
  EXPECT_FALSE(features.defined());
}

TEST(ForwardHooks, OfActivationsThatALinearLayerWouldTakeAlongAreCalled) {
  nn::Sequential net(nn::Linear(2, 2), nn::ReLU());
  int calls = 0;
  net[1].register_forward_hook([&](nn::ModuleBase&, const Tensor&, const Tensor&) { ++calls; });
  net(ones({1, 2}));
  EXPECT_EQ(calls, 1);
}

TEST(ForwardHooks, AreCalledByCopiesToo) {
  nn::ReLU relu;
  int calls = 0;
  const HookHandle handle = relu.register_forward_hook([&](nn::ModuleBase&, const Tensor&, const Tensor&) { ++calls; });
  nn::ReLU copied = relu;
  copied(ones({1}));
  relu(ones({1}));
  EXPECT_EQ(calls, 2);
  handle.remove();
  copied(ones({1}));
  EXPECT_EQ(calls, 2);
}

TEST(ForwardHooks, RefuseModulesThatReturnNoTensor) {
  nn::LSTM lstm(2, 2);
  lstm.register_forward_hook([](nn::ModuleBase&, const Tensor&, const Tensor&) {});
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              lstm(ones({1, 1, 2}));
            }),
            "[register_forward_hook] expected a module that returns a tensor, got LSTM: hook a module inside of it, or "
            "one around it");
  EXPECT_THROW(lstm.register_forward_hook(nullptr), InvalidArgument);
}

TEST(StateDict, IsReadChangedAndShortened) {
  StateDict state = nn::Linear(2, 1).state_dict();
  EXPECT_TRUE(state.contains("bias"));
  state["bias"] = zeros({1});
  EXPECT_EQ(state["bias"].item<float>(), 0);
  state["extra"] = ones({2});
  EXPECT_EQ(state.size(), 3u);
  EXPECT_TRUE(state.erase("weight"));
  EXPECT_FALSE(state.erase("weight"));
  EXPECT_FALSE(state.contains("weight"));
  Names keys;
  for (const auto& [key, value] : state) keys.push_back(key);
  EXPECT_EQ(keys, (Names{"bias", "extra"}));
  EXPECT_EQ(state.at("extra").numel(), 2);
  const StateDict& fixed = state;
  EXPECT_THROW(fixed["weight"], InvalidArgument);
}

TEST(PretrainedEmbedding, IsACopyThatIsNotTrained) {
  const Tensor weight = tensor({{1., 2.}, {3., 4.}}).to(kFloat32);
  auto layer = nn::Embedding::from_pretrained(weight, {.padding_idx = 0});
  EXPECT_FALSE(layer.weight.requires_grad());
  EXPECT_EQ(layer(tensor({1, 0})).to_vector<float>(), (std::vector<float>{3, 4, 1, 2}));
  EXPECT_TRUE(nn::Embedding::from_pretrained(weight, {.freeze = false}).weight.requires_grad());
  EXPECT_THROW(nn::Embedding::from_pretrained(ones({2})), ShapeError);
  EXPECT_THROW(nn::Embedding::from_pretrained(weight, {.padding_idx = 2}), InvalidArgument);
  EXPECT_THROW(nn::Embedding(2, 2, {.max_norm = -1}), InvalidArgument);
}

// PyTorch 2.15: nn.Embedding.from_pretrained(tensor([[3., 4.], [0.3, 0.4], [6., 8.]]), max_norm=1)(tensor([0, 1, 0])).
TEST(MaxNorm, ScalesTheRowsThatAreLookedUp) {
  const Tensor weight = tensor({{3., 4.}, {0.3, 0.4}, {6., 8.}}).to(kFloat64);
  auto layer = nn::Embedding::from_pretrained(weight, {.max_norm = 1});
  const std::vector<double> got = layer(tensor({0, 1, 0})).to_vector<double>();
  const std::vector<double> expected = {0.6, 0.8, 0.3, 0.4, 0.6, 0.8};
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-7);
  EXPECT_EQ(layer.weight.select(0, 2).to_vector<double>(), (std::vector<double>{6, 8}));
  EXPECT_EQ(weight.select(0, 0).to_vector<double>(), (std::vector<double>{3, 4}));
}

TEST(Positions, AreThoseOfPyTorch) {
  EXPECT_FALSE(nn::Linear(3, 2, false).bias);
  const Tensor image = rand({1, 2, 7, 7});
  EXPECT_EQ(nn::MaxPool2d(2, 2)(image).sizes(), (Shape{1, 2, 3, 3}));
  EXPECT_EQ(nn::MaxPool2d(3, 1, 1)(image).sizes(), (Shape{1, 2, 7, 7}));
  EXPECT_EQ(nn::AvgPool2d(3, 2)(image).sizes(), (Shape{1, 2, 3, 3}));
  EXPECT_EQ(nn::Conv2d(2, 4, 3, 2)(image).sizes(), (Shape{1, 4, 3, 3}));
  EXPECT_EQ(nn::Conv2d(2, 4, 3, 1, 1)(image).sizes(), (Shape{1, 4, 7, 7}));
  EXPECT_EQ(nn::ConvTranspose2d(2, 4, 4, 2, 1)(image).sizes(), (Shape{1, 4, 14, 14}));
  EXPECT_EQ(nn::Conv2d(2, 4, 3, {.padding = "same", .padding_mode = "reflect"})(image).sizes(), (Shape{1, 4, 7, 7}));
  EXPECT_THROW(nn::Conv2d(2, 4, 3, {.padding = "full"}), InvalidArgument);
  Tensor x = tensor({-1., 2.});
  const Tensor same = nn::ReLU(true)(x);
  EXPECT_TRUE(same.is_same(x));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 2}));
}

}  // namespace
}  // namespace lockstep::module_tree
