// Sequential: modules in a row.
#include <lockstep/nn/sequential.h>

#include <gtest/gtest.h>

#include <algorithm>

#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/runtime/trace.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "nn/modules.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::keys;
using testing::thrown;
using testing::values;

TEST(Sequential, AppliesItsModulesInOrder) {
  nn::Linear first(3, 4), second(4, 2);
  nn::Sequential net(copy(first), nn::ReLU(), copy(second));
  const Tensor x = randn({5, 3});
  EXPECT_EQ(values(net(x)), values(second(nn::ReLU()(first(x)))));
  EXPECT_EQ(keys(net), (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
}

// Activations that follow no linear layer, and the exact GELU, stay separate operations.
TEST(Sequential, EndsLinearLayersWithTheirActivationWhereNothingIsRecorded) {
  const SimulatedDevices devices({.count = 1});
  nn::Sequential net(nn::ReLU(), nn::Linear(3, 4), nn::ReLU(), nn::ReLU(), nn::Linear(4, 5, {.bias = false}),
                     nn::GELU(GeluForm::tanh), nn::Linear(5, 6), nn::GELU(), nn::Linear(6, 2));
  net.to(Device::cuda(0));
  const Tensor x = randn({7, 3}).cuda();
  const std::vector<double> recorded = values(net(x));
  const NoGrad guard;
  synchronize(Device::cuda(0));
  const Trace trace;
  const Tensor y = net(x);
  synchronize(Device::cuda(0));
  const auto count = [&](const char* name) { return std::ranges::count(trace.events(), name, &TraceEvent::name); };
  EXPECT_EQ(count("matmul"), 4);
  EXPECT_EQ(count("relu"), 2);
  EXPECT_EQ(count("gelu"), 1);
  const std::vector<double> got = values(y);
  ASSERT_EQ(got.size(), recorded.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], recorded[i], 1e-5);
}

TEST(Sequential, IsTheIdentityWhenEmpty) {
  nn::Sequential net;
  const Tensor x = randn({2});
  EXPECT_TRUE(net(x).is_same(x));
}

TEST(Sequential, TakesModulesLater) {
  nn::Sequential net;
  net.push_back(nn::Linear(3, 1));
  net.push_back(testing::Block());
  EXPECT_EQ(net.size(), 2u);
  EXPECT_EQ(keys(net)[2], "1.fc.weight");
}

TEST(Sequential, GivesAModuleByItsType) {
  nn::Sequential net(nn::Linear(3, 1), nn::ReLU());
  EXPECT_EQ(net[0].as<nn::Linear>().weight.sizes(), (Shape{1, 3}));
  EXPECT_EQ(
      thrown<InvalidArgument>([&] { net[1].as<nn::Linear>(); }),
      "[AnyModule::as] the module held here is a lockstep::nn::ReLU, not a lockstep::nn::Linear: use find<Linear>(), "
      "which returns null");
  EXPECT_EQ(thrown<InvalidArgument>([&] { net[2]; }), "[Sequential] expected an index below 2, got 2");
}

TEST(Sequential, CopiesItsModules) {
  nn::Sequential first(nn::Linear(3, 1)), second(first);
  const NoGrad guard;
  second[0].as<nn::Linear>().weight.fill_(0);
  EXPECT_NE(values(first[0].as<nn::Linear>().weight), std::vector<double>(3, 0));
  first = second;
  EXPECT_EQ(values(first[0].as<nn::Linear>().weight), std::vector<double>(3, 0));
}

TEST(Sequential, KeepsItsParametersWhenAssigned) {
  nn::Sequential net(nn::Linear(3, 1), nn::ReLU()), best(net);
  const std::vector<Tensor> handles = net.parameters();
  {
    const NoGrad guard;
    best[0].as<nn::Linear>().weight.fill_(7);
  }
  net = best;
  EXPECT_TRUE(net.parameters()[0].is_same(handles[0]));
  EXPECT_EQ(values(handles[0]), std::vector<double>(3, 7));
  net = nn::Sequential(nn::ReLU(), nn::ReLU());  // other modules
  EXPECT_TRUE(net.parameters().empty());
}

TEST(Sequential, AModuleHasOneMode) {
  nn::Sequential net(nn::Dropout(1), nn::ReLU());
  net[0].set_mode(false);
  EXPECT_EQ(values(net(ones({2}))), (std::vector<double>{1, 1}));
  EXPECT_FALSE(net[0].is_training());
  EXPECT_TRUE(net[1].is_training());
}

struct Derived : nn::Linear {
  using nn::Linear::Linear;
};
struct Own : nn::Module<Own> {
  Tensor forward(const Tensor& x) const { return x; }
};
static_assert(nn::IsMostDerived<nn::Linear> && nn::IsMostDerived<nn::Sequential> && nn::IsMostDerived<nn::AnyModule> &&
              nn::IsMostDerived<Own>);
static_assert(!nn::IsMostDerived<Derived>);  // would run as a Linear in one place and as itself in another

}  // namespace
}  // namespace lockstep
