// Explicit copies of modules and parameters. (Implicit copies, which do not compile: tests/compile.)
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>

#include "support/values.h"

namespace lockstep {
namespace {

using testing::values;

// True if auto b = a compiles for a non-const a.
template <class T>
constexpr bool kCopiedUnasked = std::is_convertible_v<T&, T>;

// The properties of types that are copied only explicitly.
template <class... Ts>
constexpr bool kNeverCopiedUnasked = ((!kCopiedUnasked<Ts> && std::is_copy_constructible_v<Ts> &&
                                       std::is_constructible_v<Ts, Ts&> && std::is_nothrow_move_constructible_v<Ts> &&
                                       std::is_copy_assignable_v<Ts>)&&...);

struct Net : nn::Module<Net> {
  nn::Linear first{2, 2};
  std::vector<nn::Linear> list;
  std::array<nn::Linear, 2> array{nn::Linear(2, 2), nn::Linear(2, 2)};
  nn::Linear plain[1] = {nn::Linear(2, 2)};
  std::optional<nn::Linear> maybe{nn::Linear(2, 2)};
  std::map<std::string, nn::Linear> map;
  Net() {
    list.emplace_back(2, 2);
    map.emplace("a", nn::Linear(2, 2));
  }
  auto members() {
    return nn::members("first", first, "list", list, "array", array, "plain", plain[0], "maybe", maybe, "map", map);
  }
  Tensor forward(const Tensor& x) { return first(x); }
};

TEST(Copy, IsAskedForOfLayersAndParameters) {
  EXPECT_TRUE((kNeverCopiedUnasked<nn::Parameter, nn::Buffer, nn::Linear, nn::LazyLinear, nn::Embedding,
                                   nn::BatchNorm1d, nn::LayerNorm, nn::GroupNorm, nn::AnyModule, nn::Sequential>));
}

TEST(Copy, OfALayerHasParametersOfItsOwn) {
  nn::Linear layer(3, 2);
  nn::Linear direct(layer), asked = copy(layer);
  EXPECT_EQ(values(asked.weight), values(layer.weight));
  EXPECT_EQ(values(direct.weight), values(layer.weight));
  const std::vector<double> before = values(layer.weight);
  const NoGrad guard;
  asked.weight.zero_();
  direct.weight.zero_();
  EXPECT_EQ(values(layer.weight), before);
}

TEST(Copy, OfAUsersModuleCopiesWhatItHoldsInContainers) {
  Net net;
  Net unasked = net, other;
  other = net;  // assignment to an object that already has memory
  const auto expected = net.state_dict(), got = unasked.state_dict(), assigned = other.state_dict();
  ASSERT_EQ(expected.size(), 14u);
  for (const auto& [key, value] : expected) {
    EXPECT_EQ(values(*got.find(key)), values(value)) << key;
    EXPECT_EQ(values(*assigned.find(key)), values(value)) << key;
    EXPECT_FALSE(got.find(key)->is_same(value)) << key;
  }
}

TEST(Copy, OfAParameterCopiesItsElementsAndAHandleDoesNot) {
  nn::Linear layer(3, 2);
  nn::Parameter copied = copy(layer.weight);
  Tensor handle = layer.weight;
  const NoGrad guard;
  copied.fill_(1);
  handle.fill_(2);
  EXPECT_EQ(values(layer.weight), std::vector<double>(6, 2));
}

TEST(Copy, OfAListOfModulesStandsForItself) {
  nn::Sequential net(nn::Linear(2, 2), nn::ReLU());
  nn::Sequential twice(copy(net[0]), copy(net), std::move(net));
  EXPECT_EQ(twice.parameters().size(), 6u);
}

}  // namespace
}  // namespace lockstep
