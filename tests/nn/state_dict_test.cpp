// Saving and loading the state of modules by key.
#include <lockstep/nn/module.h>

#include <gtest/gtest.h>

#include "nn/modules.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::Everything;
using testing::thrown;
using testing::values;

StateDict with_prefix(const StateDict& state, const std::string& prefix) {
  StateDict result;
  for (const auto& [key, value] : state) result.add(prefix + key, value);
  return result;
}

void expect_equal(const StateDict& got, const StateDict& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [key, value] : expected) EXPECT_EQ(values(got.at(key)), values(value)) << key;
}

TEST(StateDict, HoldsHandlesOutsideTheGraph) {
  nn::Linear layer(2, 1);
  const StateDict state = layer.state_dict();
  EXPECT_FALSE(state.at("weight").requires_grad());
  const NoGrad guard;
  layer.weight.fill_(7);
  EXPECT_EQ(values(state.at("weight")), (std::vector<double>{7, 7}));
}

TEST(LoadStateDict, TakesOverAllValuesWhereverTheyAre) {
  const TestDevices devices(1);
  const Everything source;
  Everything target;
  target.to("cuda:0");
  const std::vector<Tensor> handles = target.parameters();
  target.load_state_dict(source.state_dict());
  expect_equal(target.state_dict(), source.state_dict());
  const std::vector<Tensor> after = target.parameters();
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_TRUE(handles[i].is_same(after[i]));
    EXPECT_EQ(after[i].device(), Device("cuda:0"));
    EXPECT_TRUE(after[i].requires_grad());
  }
}

TEST(LoadStateDict, ConvertsToTheDtypeOfTheModule) {
  nn::Linear layer(2, 1), wide(2, 1, {.tensor = {.dtype = kFloat64}});
  layer.load_state_dict(wide.state_dict());
  EXPECT_EQ(layer.weight.dtype(), kFloat32);
  EXPECT_NEAR(values(layer.weight)[0], values(wide.weight)[0], 1e-6);
}

TEST(LoadStateDict, OfItsOwnStateChangesNothing) {
  Everything module;
  const Everything copy = module;
  module.load_state_dict(module.state_dict());
  expect_equal(module.state_dict(), copy.state_dict());
}

TEST(LoadStateDict, NamesAllProblemsAtOnceAndChangesNothing) {
  nn::Sequential net(nn::Linear(3, 2), nn::ReLU(), nn::Linear(2, 1));
  const nn::Sequential before(net);
  StateDict state;
  state.add("0.weight", zeros({2, 3}));
  state.add("0.bias", zeros({3}));
  state.add("2.weight", zeros({2, 1}));
  state.add("2.extra", zeros({1}));
  state.add("other", zeros({1}));
  EXPECT_EQ(thrown<InvalidArgument>([&] { net.load_state_dict(state); }),
            "[load_state_dict] expected the keys and shapes of the module, got:\n"
            "  shape of 0.bias: expected [2], got [3]\n"
            "  shape of 2.weight: expected [1, 2], got [2, 1]\n"
            "  missing: 2.bias\n"
            "  unexpected: 2.extra\n"
            "  unexpected: other");
  expect_equal(net.state_dict(), before.state_dict());
}

TEST(LoadStateDict, TakesWhatFitsUnlessStrict) {
  nn::Linear layer(2, 1);
  const std::vector<double> bias = values(*layer.bias);
  StateDict state;
  state.add("weight", full({1, 2}, 4.));
  state.add("other", zeros({1}));
  const IncompatibleKeys left = layer.load_state_dict(state, {.strict = false});
  EXPECT_EQ(left.missing_keys, std::vector<std::string>{"bias"});
  EXPECT_EQ(left.unexpected_keys, std::vector<std::string>{"other"});
  EXPECT_EQ(values(layer.weight), (std::vector<double>{4, 4}));
  EXPECT_EQ(values(*layer.bias), bias);
  StateDict wrong;
  wrong.add("weight", zeros({3}));
  EXPECT_THROW(layer.load_state_dict(wrong, {.strict = false}), InvalidArgument);
}

TEST(LoadStateDict, StripsAPrefix) {
  const Everything source;
  Everything target;
  target.load_state_dict(with_prefix(source.state_dict(), "module."), {.strip_prefix = "module."});
  expect_equal(target.state_dict(), source.state_dict());
  target.load_state_dict(source.state_dict(), {.strip_prefix = "module."});  // keys without it stay
}

TEST(LoadStateDict, RefusesTwoKeysThatBecomeOne) {
  nn::Linear layer(2, 1, {.bias = false});
  StateDict state;
  state.add("weight", zeros({1, 2}));
  state.add("module.weight", ones({1, 2}));
  const std::string refused =
      thrown<InvalidArgument>([&] { layer.load_state_dict(state, {.strip_prefix = "module."}); });
  EXPECT_NE(refused.find("twice: weight"), std::string::npos) << refused;
}

TEST(LoadStateDict, RefusesAnUndefinedTensorBeforeAnythingChanges) {
  nn::Linear layer(2, 1);
  const std::vector<double> weight = values(layer.weight);
  StateDict state;
  state.add("weight", zeros({1, 2}));
  state.add("bias", Tensor());
  EXPECT_EQ(thrown<InvalidArgument>([&] { layer.load_state_dict(state); }),
            "[load_state_dict] expected the keys and shapes of the module, got:\n  missing: bias");
  EXPECT_EQ(values(layer.weight), weight);
}

struct NamesOneTwice : nn::Module<NamesOneTwice> {
  nn::Parameter weight{ones({2})}, other{ones({2})};
  auto members() { return nn::members("weight", weight, "weight", other); }
};

TEST(LoadStateDict, RefusesAModuleThatNamesTwoTheSame) {
  NamesOneTwice module;
  StateDict state;
  state.add("weight", zeros({2}));
  EXPECT_EQ(thrown<InvalidArgument>([&] { module.load_state_dict(state); }),
            "[load_state_dict] expected the keys and shapes of the module, got:\n  twice in the module: weight");
  EXPECT_EQ(values(module.weight), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace lockstep
