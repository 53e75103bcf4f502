// Modules as plain values.
#include <lockstep/nn/module.h>

#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>

#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/random.h>

#include "nn/modules.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::Everything;
using testing::keys;
using testing::Mode;
using testing::thrown;
using testing::values;

TEST(Module, NamesItsStateByWhereItStands) {
  EXPECT_EQ(keys(Everything()), (std::vector<std::string>{"blocks.0.fc.weight",
                                                          "blocks.0.fc.bias",
                                                          "blocks.0.affine.scale",
                                                          "blocks.0.affine.mean",
                                                          "blocks.1.fc.weight",
                                                          "blocks.1.fc.bias",
                                                          "blocks.1.affine.scale",
                                                          "blocks.1.affine.mean",
                                                          "pair.0",
                                                          "pair.1",
                                                          "heads.left.weight",
                                                          "heads.left.bias",
                                                          "heads.right.weight",
                                                          "present.fc.weight",
                                                          "present.fc.bias",
                                                          "present.affine.scale",
                                                          "present.affine.mean",
                                                          "body.0.weight",
                                                          "body.0.bias",
                                                          "body.2.0.weight",
                                                          "body.2.0.bias",
                                                          "count"}));
}

TEST(Module, GivesParametersWithoutBuffers) {
  Everything module;
  const auto named = module.named_parameters();
  EXPECT_EQ(named.size(), module.parameters().size());
  std::set<std::string> names;
  for (const auto& [name, parameter] : named) {
    EXPECT_TRUE(parameter.requires_grad()) << name;
    names.insert(name);
  }
  EXPECT_FALSE(names.contains("count"));
  EXPECT_FALSE(names.contains("blocks.0.affine.mean"));
  EXPECT_TRUE(names.contains("heads.right.weight"));
  EXPECT_TRUE(module.parameters()[0].is_same(module.blocks[0].fc.weight));
}

TEST(Module, CopiesWhatItHolds) {
  Everything first;
  first.rate = 2;
  first.mode = Mode::scaled;
  Everything second = first;
  const Tensor x = randn({3, 2});
  EXPECT_EQ(values(second(x)), values(first(x)));
  EXPECT_EQ(second.rate, 2);
  EXPECT_EQ(second.mode, Mode::scaled);
  const NoGrad guard;
  for (Tensor parameter : second.parameters()) parameter.fill_(0);
  second.count.fill_(9);
  for (const Tensor& parameter : first.parameters())
    if (!parameter.is_same(first.pair[1])) {
      EXPECT_NE(values(parameter), std::vector<double>(std::size_t(parameter.numel()), 0));
    }
  EXPECT_EQ(values(first.count), (std::vector<double>{0, 0}));
  for (const Tensor& parameter : second.parameters()) EXPECT_TRUE(parameter.requires_grad());
}

TEST(Module, MovesWithoutCopying) {
  Everything first;
  const std::vector<Tensor> before = first.parameters();
  Everything second = std::move(first);
  const std::vector<Tensor> after = second.parameters();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].is_same(after[i]));
}

TEST(Module, KeepsHandlesWhenItMovesToAnotherDevice) {
  const TestDevices devices(2);
  Everything module;
  const Tensor x = randn({3, 2});
  const std::vector<double> expected = values(module(x));
  const std::vector<Tensor> handles = module.parameters();
  sum(module(x)).backward();
  const std::vector<double> gradient = values(module.body[0].as<nn::Linear>().weight.grad());
  module.to("cuda:1");
  const std::vector<Tensor> moved = module.parameters();
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_TRUE(handles[i].is_same(moved[i]));
    EXPECT_EQ(handles[i].device(), Device("cuda:1"));
    EXPECT_TRUE(handles[i].requires_grad());
    EXPECT_TRUE(handles[i].is_leaf());
  }
  EXPECT_EQ(module.count.device(), Device("cuda:1"));
  const nn::Linear& first = module.body[0].as<nn::Linear>();
  EXPECT_EQ(values(first.weight.grad()), gradient);
  EXPECT_EQ(first.weight.grad().device(), Device("cuda:1"));
  const std::vector<double> got = values(module(x.cuda(1)));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
}

TEST(Module, TrainsOnWhereItMovedTo) {
  const TestDevices devices(1);
  nn::Linear module(2, 1);
  const Tensor x = ones({3, 2});
  const Tensor before = sum(module(x));  // its graph leads to the parameters on the CPU
  module.to("cuda:0");
  sum(module(x.cuda())).backward();
  EXPECT_EQ(module.weight.grad().device(), Device("cuda:0"));
  EXPECT_EQ(values(module.weight.grad()), (std::vector<double>{3, 3}));
  EXPECT_THROW(before.backward(), AutogradError);
  EXPECT_EQ(values(module.weight.grad()), (std::vector<double>{3, 3}));
}

TEST(Module, ToAMissingDeviceChangesNothing) {
  const TestDevices devices(1);
  Everything module;
  EXPECT_EQ(thrown<InvalidArgument>([&] { module.to("cuda:3"); }),
            "[Device] expected one of 1 visible GPUs, got cuda:3");
  for (const Tensor& parameter : module.parameters()) EXPECT_EQ(parameter.device(), Device("cpu"));
}

TEST(Module, ConvertsFloatingStateAlone) {
  Everything module;
  module.to(kFloat64);
  for (const Tensor& parameter : module.parameters()) EXPECT_EQ(parameter.dtype(), kFloat64);
  EXPECT_EQ(module.blocks[0].affine.mean.dtype(), kFloat64);
  EXPECT_EQ(module.count.dtype(), kInt64);
  EXPECT_EQ(module(randn({3, 2}, {.dtype = kFloat64})).dtype(), kFloat64);
  EXPECT_EQ(thrown<DTypeError>([&] { module.to(kInt32); }), "[Module::to] expected a floating dtype, got int32");
}

TEST(Module, SetsTrainingForAllBelow) {
  Everything module;
  EXPECT_TRUE(module.is_training());
  module.eval();
  EXPECT_FALSE(module.is_training());
  EXPECT_FALSE(module.blocks[1].fc.is_training());
  EXPECT_FALSE(module.present->is_training());
  EXPECT_FALSE(module.heads.at("left").is_training());
  EXPECT_FALSE(module.body[0].is_training());
  EXPECT_FALSE(module.body[2].as<nn::Sequential>()[0].as<nn::Linear>().is_training());
  EXPECT_FALSE(Everything(module).is_training());
  module.train();
  EXPECT_TRUE(module.body[2].as<nn::Sequential>()[0].as<nn::Linear>().is_training());
}

TEST(Module, ClearsGradients) {
  Everything module;
  sum(module(ones({2, 2}))).backward();
  EXPECT_TRUE(module.blocks[0].fc.weight.grad().defined());
  module.zero_grad();
  for (const Tensor& parameter : module.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(Module, WithoutMembersIsEmpty) {
  EXPECT_TRUE(nn::ReLU().parameters().empty());
  EXPECT_TRUE(nn::Flatten().state_dict().empty());
}

struct Deep : nn::Module<Deep> {
  std::map<std::string, std::vector<std::optional<nn::Sequential>>> levels;
  Deep() {
    levels["a"].emplace_back(nn::Sequential(nn::Sequential(nn::ReLU(), nn::Sequential(nn::Linear(1, 1))), nn::ReLU()));
  }
  auto members() { return nn::members("levels", levels); }
};

// Containers that Everything lacks.
struct Contained : nn::Module<Contained> {
  std::tuple<nn::Linear, std::pair<int, nn::Parameter>> mixed{nn::Linear(1, 1, {.bias = false}),
                                                              {7, nn::Parameter(ones({1}))}};
  std::deque<nn::Buffer> deque;
  std::list<nn::Buffer> list;
  nn::Buffer plain[2] = {nn::Buffer(ones({1})), nn::Buffer(ones({1}))};
  std::variant<double, nn::Linear> variant;
  std::unordered_map<std::string, nn::Buffer> unordered;
  std::map<int, nn::Buffer> numbered;
  Contained() {
    deque.emplace_back(ones({1}));
    list.emplace_back(ones({1}));
    variant = nn::Linear(1, 1, {.bias = false});
    for (const char* key : {"c", "a", "d", "b"}) unordered.emplace(key, nn::Buffer(ones({1})));
    for (const int key : {10, -1}) numbered.emplace(key, nn::Buffer(ones({1})));
  }
  auto members() {
    return nn::members("mixed", mixed, "deque", deque, "list", list, "plain", plain, "variant", variant, "unordered",
                       unordered, "numbered", numbered);
  }
};

TEST(Module, LooksIntoEveryContainer) {
  EXPECT_EQ(keys(Contained()), (std::vector<std::string>{"mixed.0.weight", "mixed.1.1", "deque.0", "list.0", "plain.0",
                                                         "plain.1", "variant.weight", "unordered.a", "unordered.b",
                                                         "unordered.c", "unordered.d", "numbered.-1", "numbered.10"}));
  Contained other;
  other.variant = 2.0;
  EXPECT_EQ(keys(other).size(), keys(Contained()).size() - 1);
  const Contained first, second = first;
  EXPECT_EQ(values(second.unordered.at("a")), (std::vector<double>{1}));
  EXPECT_FALSE(second.unordered.at("a").is_same(first.unordered.at("a")));
}

struct Extents final : nn::Visitor {
  std::vector<std::string> seen;
  void extent(const nn::Path& path, std::size_t extent) override {
    seen.push_back(path.str() + " " + std::to_string(extent));
  }
};

TEST(Module, TellsWhatContainersHold) {
  Contained module;
  Extents visitor;
  module.visit(nn::Path(), visitor);
  EXPECT_EQ(visitor.seen, (std::vector<std::string>{"mixed.0.bias 0", "deque 1", "list 1", "variant 1",
                                                    "variant.bias 0", "unordered 4", "numbered 2"}));
}

TEST(Module, SpellsPathsThroughAnyNesting) {
  EXPECT_EQ(keys(Deep()), (std::vector<std::string>{"levels.a.0.0.1.0.weight", "levels.a.0.0.1.0.bias"}));
}

// A moved-from module must throw: otherwise the result would depend on its members; an empty Sequential returns its
// input.
TEST(Module, SaysThatItWasMovedFrom) {
  const auto says = [](auto module, const auto& input, const std::string& type) {
    auto taken = std::move(module);
    taken(input);
    EXPECT_GT(taken.num_parameters(), 0);
    const std::string message =
        "[" + type + "] expected a module, got one that was moved from: use the one that it was moved into";
    const StateDict state = taken.state_dict();
    EXPECT_EQ(thrown<InvalidArgument>([&] { module(input); }), message);
    EXPECT_EQ(thrown<InvalidArgument>([&] { module.parameters(); }), message);
    EXPECT_EQ(thrown<InvalidArgument>([&] { module.state_dict(); }), message);
    EXPECT_EQ(thrown<InvalidArgument>([&] { module.load_state_dict(state); }), message);
    module = std::move(taken);
    module(input);
    EXPECT_EQ(module.parameters().size(), state.size());
  };
  says(nn::Linear(3, 2), ones({4, 3}), "Linear");
  says(nn::Conv2d(3, 2, 3), ones({4, 3, 5, 5}), "Conv2d");
  says(nn::LSTM(3, 2), ones({4, 2, 3}), "LSTM");
  says(nn::Sequential(nn::Linear(3, 2)), ones({4, 3}), "Sequential");
}

TEST(Module, NamesTheModuleInItThatWasMovedFrom) {
  struct Pair : nn::Module<Pair> {
    nn::Linear a{3, 2}, b{3, 2};
    auto members() { return nn::members("a", a, "b", b); }
    Tensor forward(const Tensor& x) { return a(x) + b(x); }
  } pair;
  const nn::Linear taken = std::move(pair.b);
  EXPECT_EQ(thrown<InvalidArgument>([&] { pair.parameters(); }),
            "[Linear] expected a module b, got one that was moved from: use the one that it was moved into");
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              pair(ones({4, 3}));
            }),
            "[Linear] expected a module, got one that was moved from: use the one that it was moved into");
  std::swap(pair.a, pair.b);
  pair.a = nn::Linear(3, 2);
  EXPECT_EQ(pair(ones({4, 3})).sizes(), (Shape{4, 2}));
}

}  // namespace
}  // namespace lockstep
