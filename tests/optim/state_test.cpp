// State dicts of optimizers: saving and loading.
#include <gtest/gtest.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/creation.h>

#include "optim/cases.h"
#include "optim/replicas.h"
#include "support/test_devices.h"

namespace lockstep::optimizer_state {
namespace {

using testing::OptimizerCase;
using testing::values_in;

void train(optim::Optimizer& optimizer, const std::vector<Tensor>& parameters, int from, int to) {
  for (int step = from; step < to; ++step) {
    testing::set_gradients(parameters, step);
    optimizer.step();
  }
}

StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const auto& [key, value] : state) copy.add(key, value.cpu().clone());
  return copy;
}

StateDict without(const StateDict& state, const std::string& key) {
  StateDict rest;
  for (const auto& [each, value] : state)
    if (each != key) rest.add(each, value);
  return rest;
}

std::string refusal(optim::Optimizer& optimizer, const StateDict& state) {
  try {
    optimizer.load_state_dict(state);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

void copy_values_everywhere(const std::vector<Tensor>& to, const std::vector<Tensor>& from) {
  const NoGrad guard;
  for (std::size_t i = 0; i < to.size(); ++i)
    for (std::size_t k = 0; k < optim::replica_count(to[i]); ++k) Tensor(optim::replica(to[i], k)).copy_(from[i]);
}

TEST(OptimizerState, ResumesBitForBit) {
  const TestDevices devices(2);
  for (const DType dtype : {kFloat64, kFloat32, kFloat16})
    for (const OptimizerCase& which : testing::optimizer_cases()) {
      const std::vector<Device> both = {"cuda:0", "cuda:1"};
      const std::vector<Tensor> straight = testing::make_parameters(both, dtype);
      const auto never_stopped = which.make(straight);
      train(*never_stopped, straight, 0, 5);
      const StateDict saved = copy_of(never_stopped->state_dict());

      const std::vector<Tensor> resumed = testing::make_parameters(both, dtype);
      copy_values_everywhere(resumed, straight);
      const auto optimizer = which.make(resumed);
      train(*never_stopped, straight, 5, 10);
      optimizer->load_state_dict(saved);
      train(*optimizer, resumed, 5, 10);
      for (std::size_t i = 0; i < resumed.size(); ++i) {
        const std::vector<double> expected = values_in(straight[i]);
        for (const std::size_t k : {0, 1})
          EXPECT_EQ(values_in(resumed[i], k), expected) << which.name << " in " << dtype;
      }
    }
}

TEST(OptimizerState, OfSeveralGroupsResumesBitForBit) {
  const auto make = [](const std::vector<Tensor>& p) {
    return optim::Adam({{{p[0], p[1]}, {.lr = 0.1}}, {{p[2], p[3]}, {.lr = 0.01}}});
  };
  const auto parameters = [] {
    std::vector<Tensor> all = testing::make_parameters({Device()});
    all.resize(4);
    return all;
  };
  const std::vector<Tensor> straight = parameters(), resumed = parameters();
  optim::Adam never_stopped = make(straight), optimizer = make(resumed);
  train(never_stopped, straight, 0, 3);
  copy_values_everywhere(resumed, straight);
  optimizer.load_state_dict(copy_of(never_stopped.state_dict()));
  train(never_stopped, straight, 3, 5);
  train(optimizer, resumed, 3, 5);
  for (std::size_t i = 0; i < resumed.size(); ++i) EXPECT_EQ(values_in(resumed[i]), values_in(straight[i])) << i;
}

TEST(OptimizerState, HoldsSlotsAndOptionsByName) {
  const std::vector<Tensor> parameters = testing::make_parameters({"cpu"});
  optim::SGD optimizer(parameters, {.lr = 0.1, .momentum = 0.9});
  EXPECT_FALSE(optimizer.state_dict().find("state.0.step"));
  train(optimizer, parameters, 0, 3);
  const StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.at("state.0.momentum_buffer").sizes(), (Shape{5, 7}));
  EXPECT_EQ(state.at("state.5.step").item<int>(), 3);
  EXPECT_EQ(state.at("param_groups.0.momentum").item<double>(), 0.9);
  EXPECT_FALSE(state.at("param_groups.0.nesterov").item<bool>());
  EXPECT_EQ(state.at("param_groups.0.params").to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(OptimizerState, BringsOptionsAlong) {
  const std::vector<Tensor> parameters = testing::make_parameters({"cpu"});
  optim::Adam changed(parameters, {.lr = 0.25, .betas = {0.5, 0.75}, .amsgrad = true}), plain(parameters, {});
  plain.load_state_dict(changed.state_dict());
  EXPECT_EQ(plain.options().lr, 0.25);
  EXPECT_EQ(plain.options().betas, (std::array{0.5, 0.75}));
  EXPECT_TRUE(plain.options().amsgrad);
}

TEST(OptimizerState, NamesAllThatIsWrongAndChangesNothing) {
  const std::vector<Tensor> parameters = testing::make_parameters({"cpu"});
  optim::Adam optimizer(parameters, {.lr = 0.1});
  train(optimizer, parameters, 0, 2);
  const StateDict good = copy_of(optimizer.state_dict());
  StateDict bad = without(without(without(good, "state.0.exp_avg"), "param_groups.0.eps"), "state.1.exp_avg_sq");
  bad = without(without(bad, "param_groups.0.lr"), "state.3.step");
  bad.add("state.1.exp_avg_sq", zeros({2, 2}, {.dtype = kFloat64}));
  bad.add("param_groups.0.lr", tensor(-1.0));
  bad.add("state.77.step", tensor(1));
  const std::string message = refusal(optimizer, bad);
  for (const char* part : {"missing key \"state.0.exp_avg\"", "missing key \"param_groups.0.eps\"",
                           "missing key \"state.3.step\"", "key \"state.1.exp_avg_sq\" has shape [2, 2], expected [13]",
                           "lr >= 0, got -1", "unexpected key \"state.77.step\""})
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  EXPECT_EQ(optimizer.lr(), 0.1);
  const StateDict now = optimizer.state_dict();
  for (const auto& [key, value] : good)
    EXPECT_EQ(now.at(key).to(kFloat64).flatten().to_vector<double>(), value.to(kFloat64).flatten().to_vector<double>())
        << key;
}

TEST(OptimizerState, RefusesGroupsOfOtherSizes) {
  const std::vector<Tensor> parameters = testing::make_parameters({"cpu"});
  const std::vector<Tensor> head(parameters.begin(), parameters.begin() + 2),
      rest(parameters.begin() + 2, parameters.end());
  optim::SGD one(parameters, {}), two({{head, {.lr = 0.1}}, {rest, {.lr = 0.2}}});
  EXPECT_NE(refusal(two, one.state_dict()).find("missing key \"param_groups.1.lr\""), std::string::npos);
  EXPECT_NE(refusal(one, two.state_dict()).find("key \"param_groups.0.params\" has shape [2], expected [6]"),
            std::string::npos);
}

TEST(OptimizerState, RefusesAStepThatIsNone) {
  const std::vector<Tensor> parameters = testing::make_parameters({"cpu"});
  optim::SGD optimizer(parameters, {});
  for (const double step : {-1., 0.5, 1e300}) {
    StateDict state = copy_of(optimizer.state_dict());
    state.add("state.0.step", tensor(step));
    EXPECT_NE(refusal(optimizer, state).find("\"state.0.step\""), std::string::npos) << step;
  }
}

}  // namespace
}  // namespace lockstep::optimizer_state
