// LBFGS against PyTorch's steps (tests/reference/optimizer_paths.json), its state, and errors.
#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/lbfgs.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/tensor/creation.h>

#include "reference/data.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using reference::Json;
using Values = std::vector<double>;

const Json& runs() {
  static const Json file = reference::read_json(reference::folder() + "/optimizer_paths.json");
  return file.at("lbfgs");
}

optim::LBFGSOptions options_of(const Json& json) {
  optim::LBFGSOptions o;
  o.lr = json.value("lr", o.lr);
  o.max_iter = json.value("max_iter", o.max_iter);
  o.max_eval = json.value("max_eval", o.max_eval);
  o.tolerance_grad = json.value("tolerance_grad", o.tolerance_grad);
  o.tolerance_change = json.value("tolerance_change", o.tolerance_change);
  o.history_size = json.value("history_size", o.history_size);
  o.maximize = json.value("maximize", o.maximize);
  if (json.contains("line_search_fn")) o.line_search_fn = json.at("line_search_fn").get<std::string>();
  return o;
}

// The problem of the script: x [3] and y [1, 3], and a function of them.
struct Problem {
  Tensor x, y;
  std::string function = "quartic";
  bool maximize = false;
  optim::LBFGS optimizer;

  explicit Problem(const optim::LBFGSOptions& options, Device device = {}, const std::string& what = "quartic")
      : x(tensor({-1.2, 0.3, 2.0}, {.dtype = kFloat64, .device = device}).requires_grad_()),
        y(tensor({{1.0, -0.5, 0.7}}, {.dtype = kFloat64, .device = device}).requires_grad_()),
        function(what),
        maximize(options.maximize),
        optimizer({x, y}, options) {}

  Tensor loss() const {
    const Tensor value = function == "rosenbrock" ? (100 * (y - x * x).pow(2) + (1 - x).pow(2)).sum()
                                                  : (x - 1).pow(4).sum() + (3 * (y - 0.5 * x).pow(2)).sum();
    return maximize ? -value : value;
  }
  Tensor step() {
    return optimizer.step([this] {
      optimizer.zero_grad();
      Tensor value = loss();
      value.backward();
      return value;
    });
  }
  double number(const char* key) const { return optimizer.state_dict().at(key).item<double>(); }
};

void expect_near(const Values& got, const Json& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = expected[i].get<double>();
    EXPECT_NEAR(got[i], e, 1e-8 * std::max(1., std::abs(e))) << what;
  }
}

void follow(Device device) {
  for (const Json& run : runs()) {
    Problem problem(options_of(run.at("options")), device, run.at("function"));
    int step = 0;
    for (const Json& expected : run.at("steps")) {
      const std::string what =
          run.at("function").get<std::string>() + ' ' + run.at("options").dump() + " step " + std::to_string(step++);
      const double e = expected.at("loss").get<double>();
      EXPECT_NEAR(problem.step().item<double>(), e, 1e-8 * std::max(1., std::abs(e))) << what;
      expect_near(problem.x.detach().to_vector<double>(), expected.at("x"), what);
      expect_near(problem.y.detach().flatten().to_vector<double>(), expected.at("y"), what);
      EXPECT_EQ(problem.number("state.0.func_evals"), expected.at("func_evals").get<double>()) << what;
      EXPECT_EQ(problem.number("state.0.n_iter"), expected.at("n_iter").get<double>()) << what;
    }
  }
}

TEST(LBFGS, TakesPyTorchsSteps) { follow("cpu"); }

TEST(LBFGS, TakesThemOnASimulatedDevice) {
  const TestDevices devices(1);
  follow("cuda:0");
}

TEST(LBFGS, GoesOnFromItsStateBitForBit) {
  const optim::LBFGSOptions options = {.lr = 0.7, .max_iter = 3, .history_size = 4};
  Problem straight(options), resumed({.lr = 0.1});
  for (int i = 0; i < 3; ++i) straight.step();
  {
    const NoGrad guard;
    resumed.x.copy_(straight.x);
    resumed.y.copy_(straight.y);
  }
  resumed.optimizer.load_state_dict(straight.optimizer.state_dict());
  EXPECT_EQ(resumed.optimizer.options().max_iter, 3);
  EXPECT_EQ(resumed.optimizer.options().history_size, 4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(straight.step().item<double>(), resumed.step().item<double>());
  EXPECT_EQ(straight.x.detach().to_vector<double>(), resumed.x.detach().to_vector<double>());
  resumed.optimizer.reset_state();
  EXPECT_FALSE(resumed.optimizer.state_dict().find("state.0.d"));
}

TEST(LBFGS, NamesAllThatIsWrongWithAStateAndChangesNothing) {
  Problem problem({});
  problem.step();
  const double before = problem.number("state.0.n_iter");
  StateDict bad;
  for (const auto& [key, value] : problem.optimizer.state_dict())
    if (key != "state.0.d" && key != "state.0.n_iter") bad.add(key, value);
  bad.add("state.0.n_iter", tensor(1.5));
  bad.add("state.0.odd", tensor(1));
  try {
    problem.optimizer.load_state_dict(bad);
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "[LBFGS.load_state_dict] the state dict does not match this LBFGS: key \"state.0.n_iter\" is 1.5, "
                 "expected a whole number of at least 0; missing key \"state.0.d\"; unexpected key \"state.0.odd\"");
  }
  EXPECT_EQ(problem.number("state.0.n_iter"), before);
}

TEST(LBFGS, FollowsASchedule) {
  Problem problem({.max_iter = 2});
  optim::StepLR schedule(problem.optimizer, 1, 0.5);
  problem.step();
  schedule.step();
  EXPECT_EQ(problem.optimizer.lr(), 0.5);
}

TEST(LBFGSRefusals, SayWhatToDo) {
  Problem problem({});
  optim::Optimizer& base = problem.optimizer;
  EXPECT_THROW(base.step(), InvalidArgument);
  EXPECT_THROW(problem.optimizer.step([] { return Tensor(); }), InvalidArgument);
  EXPECT_THROW(problem.optimizer.step([&] { return problem.x * 2; }), InvalidArgument);
  EXPECT_THROW(Problem({}).optimizer.step([] { return tensor(1.); }), AutogradError);
  EXPECT_THROW(Problem({.max_iter = 0}), InvalidArgument);
  EXPECT_THROW(Problem({.history_size = 0}), InvalidArgument);
  EXPECT_THROW((Problem({.line_search_fn = "armijo"})), InvalidArgument);
  const auto none = [] { return tensor(1.); };
  optim::LBFGS halves({zeros({1}, kFloat16).requires_grad_()}), mixed({zeros({1}).requires_grad_(), problem.x});
  EXPECT_THROW(halves.step(none), InvalidArgument);
  EXPECT_THROW(mixed.step(none), InvalidArgument);
  optim::LBFGS groups({{{problem.x}, {}}, {{problem.y}, {}}});
  EXPECT_THROW(groups.step(none), InvalidArgument);
}

}  // namespace
}  // namespace lockstep
