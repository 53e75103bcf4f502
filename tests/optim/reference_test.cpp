// Optimizers and schedules against the reference vectors of tests/reference/optimizers.json (or of LOCKSTEP_REFERENCE).
// The gradients of their small model are computed by hand here, so that only optimizers are tested.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include <lockstep/optim/adadelta.h>
#include <lockstep/optim/adagrad.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/adamax.h>
#include <lockstep/optim/nadam.h>
#include <lockstep/optim/one_cycle.h>
#include <lockstep/optim/radam.h>
#include <lockstep/optim/rmsprop.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/creation.h>

#include "reference/data.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using reference::Json;
using Values = std::vector<double>;

const Json& reference_file() {
  static const Json file = reference::read_json(reference::folder() + "/optimizers.json");
  return file;
}

// The file that tests/reference/make_optimizer_paths.py made with PyTorch 2.15.
const Json& own_file() {
  static const Json file = reference::read_json(reference::folder() + "/optimizer_paths.json");
  return file;
}

Values flat(const Json& json) {
  if (!json.is_array()) return {json.get<double>()};
  Values all;
  for (const Json& part : json)
    for (const double value : flat(part)) all.push_back(value);
  return all;
}

Tensor float64(const Values& values, const Shape& sizes, Device device = {}) {
  return from_host(values.data(), values.size(), kFloat64, sizes, {.dtype = kFloat64, .device = device});
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Linear(2, 3) Sigmoid Linear(3, 1) Sigmoid, loss = sum of the outputs: the gradients of {w1 [3, 2], b1, w2 [1, 3],
// b2}.
std::vector<Values> gradients(const std::vector<Values>& parameters, const Values& input) {
  const Values &w1 = parameters[0], &b1 = parameters[1], &w2 = parameters[2], &b2 = parameters[3];
  std::vector<Values> g = {Values(6), Values(3), Values(3), Values(1)};
  for (std::size_t row = 0; row < input.size() / 2; ++row) {
    const double* const x = &input[2 * row];
    double hidden[3], sum = b2[0];
    for (std::size_t h = 0; h < 3; ++h) {
      hidden[h] = sigmoid(w1[2 * h] * x[0] + w1[2 * h + 1] * x[1] + b1[h]);
      sum += w2[h] * hidden[h];
    }
    const double y = sigmoid(sum), to_sum = y * (1 - y);
    g[3][0] += to_sum;
    for (std::size_t h = 0; h < 3; ++h) {
      g[2][h] += to_sum * hidden[h];
      const double to_hidden = to_sum * w2[h] * hidden[h] * (1 - hidden[h]);
      g[1][h] += to_hidden;
      g[0][2 * h] += to_hidden * x[0];
      g[0][2 * h + 1] += to_hidden * x[1];
    }
  }
  return g;
}

// Sets options from JSON by name; a name without an option fails the test.
template <class Options>
Options options_from(const Json& json) {
  Options options;
  std::size_t used = 0;
  for_each_member(options, [&](std::string_view name, auto& value) {
    if (!json.contains(name)) return;
    json.at(std::string(name)).get_to(value);
    ++used;
  });
  EXPECT_EQ(used, json.size()) << json;
  return options;
}

template <class O, class Options>
std::unique_ptr<optim::Optimizer> make(const std::vector<Tensor>& parameters, const Json& options) {
  return std::make_unique<O>(parameters, options_from<Options>(options));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, const std::vector<Tensor>& p, const Json& o) {
  if (name == "SGD") return make<optim::SGD, optim::SGDOptions>(p, o);
  if (name == "Adam") return make<optim::Adam, optim::AdamOptions>(p, o);
  if (name == "AdamW") return make<optim::AdamW, optim::AdamWOptions>(p, o);
  if (name == "RMSprop") return make<optim::RMSprop, optim::RMSpropOptions>(p, o);
  if (name == "Adagrad") return make<optim::Adagrad, optim::AdagradOptions>(p, o);
  if (name == "Adadelta") return make<optim::Adadelta, optim::AdadeltaOptions>(p, o);
  if (name == "Adamax") return make<optim::Adamax, optim::AdamaxOptions>(p, o);
  if (name == "NAdam") return make<optim::NAdam, optim::NAdamOptions>(p, o);
  if (name == "RAdam") return make<optim::RAdam, optim::RAdamOptions>(p, o);
  return nullptr;
}

void expect_close(const Values& got, const Values& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-10 * std::abs(expected[i])) << what << ", element " << i;
}

std::string described(const Json& run, const char* kind) {
  return run.at(kind).get<std::string>() + ' ' + run.at("options").dump();
}

void follow(const Json& run, Device device) {
  const Shape shapes[] = {{3, 2}, {3}, {1, 3}, {1}};
  std::vector<Tensor> parameters;
  for (std::size_t i = 0; i < 4; ++i)
    parameters.push_back(float64(flat(reference_file().at("init")[i]), shapes[i], device).requires_grad_());
  const Values input = flat(reference_file().at("input"));
  const auto optimizer = make_optimizer(run.at("optimizer"), parameters, run.at("options"));
  ASSERT_TRUE(optimizer) << "missing optimizer: " << run.at("optimizer");
  const auto values = [&] {
    std::vector<Values> all;
    for (const Tensor& parameter : parameters) all.push_back(parameter.detach().to_vector<double>());
    return all;
  };
  int step = 0;
  for (const Json& sample : run.at("samples")) {
    for (; step < sample.at("step").get<int>(); ++step) {
      const std::vector<Values> g = gradients(values(), input);
      for (std::size_t i = 0; i < 4; ++i) parameters[i].set_grad(float64(g[i], shapes[i], device));
      optimizer->step();
    }
    const std::vector<Values> got = values();
    for (std::size_t i = 0; i < 4; ++i)
      expect_close(
          got[i], flat(sample.at("parameters")[i]),
          described(run, "optimizer") + " parameter " + std::to_string(i) + " after step " + std::to_string(step));
  }
}

TEST(OptimizerReference, EveryRunOnTheCpu) {
  for (const Json& run : reference_file().at("optimizers")) follow(run, "cpu");
  for (const Json& run : own_file().at("optimizers")) follow(run, "cpu");
}

TEST(OptimizerReference, EveryRunOnASimulatedDevice) {
  const TestDevices devices(1);
  for (const Json& run : reference_file().at("optimizers")) follow(run, "cuda:0");
  for (const Json& run : own_file().at("optimizers")) follow(run, "cuda:0");
}

TEST(OptimizerReference, GroupsOfWhichOneComesLaterWithAScheduleOn) {
  const Json& expected = own_file().at("groups");
  const Shape shapes[] = {{3, 2}, {3}, {1, 3}, {1}};
  std::vector<Tensor> p;
  for (std::size_t i = 0; i < 4; ++i)
    p.push_back(float64(flat(reference_file().at("init")[i]), shapes[i]).requires_grad_());
  const Values input = flat(reference_file().at("input"));
  optim::Adam optimizer({{{p[0]}, {.lr = 0.05, .weight_decay = 0.1}}, {{p[1]}, {.lr = 0.01}}});
  optim::ExponentialLR schedule(optimizer, 0.9);
  for (std::size_t step = 0; step < 8; ++step) {
    if (step == 3) optimizer.add_param_group({{p[2], p[3]}, {.lr = 0.02, .betas = {0.5, 0.6}}});
    std::vector<Values> values;
    for (const Tensor& parameter : p) values.push_back(parameter.detach().to_vector<double>());
    const std::vector<Values> g = gradients(values, input);
    for (std::size_t i = 0; i < 4; ++i) p[i].set_grad(float64(g[i], shapes[i]));
    optimizer.step();
    if (step < 3) schedule.step();
    Values rates;
    for (auto& group : optimizer.param_groups()) rates.push_back(group.options.lr);
    expect_close(rates, flat(expected.at("rates")[step]), "rates after step " + std::to_string(step));
  }
  for (std::size_t i = 0; i < 4; ++i)
    expect_close(p[i].detach().to_vector<double>(), flat(expected.at("parameters")[i]),
                 "parameter " + std::to_string(i));
}

std::unique_ptr<optim::Schedule> make_schedule(const std::string& name, optim::Optimizer& optimizer, const Json& o) {
  using namespace optim;
  if (name == "StepLR")
    return std::make_unique<StepLR>(optimizer, StepLROptions{o.at("step_size"), o.value("gamma", 0.1)});
  if (name == "MultiStepLR")
    return std::make_unique<MultiStepLR>(optimizer, MultiStepLROptions{o.at("milestones"), o.value("gamma", 0.1)});
  if (name == "ExponentialLR") return std::make_unique<ExponentialLR>(optimizer, ExponentialLROptions{o.at("gamma")});
  if (name == "CosineAnnealingLR")
    return std::make_unique<CosineAnnealingLR>(optimizer,
                                               CosineAnnealingLROptions{o.at("T_max"), o.value("eta_min", 0.)});
  if (name == "CosineAnnealingWarmRestarts")
    return std::make_unique<CosineAnnealingWarmRestarts>(
        optimizer,
        CosineAnnealingWarmRestartsOptions{o.at("T_0"), o.value("T_mult", std::int64_t(1)), o.value("eta_min", 0.)});
  if (name == "LinearLR")
    return std::make_unique<LinearLR>(optimizer,
                                      LinearLROptions{o.value("start_factor", 1. / 3), o.value("end_factor", 1.),
                                                      o.value("total_iters", std::int64_t(5))});
  if (name == "PolynomialLR")
    return std::make_unique<PolynomialLR>(
        optimizer, PolynomialLROptions{o.value("total_iters", std::int64_t(5)), o.value("power", 1.)});
  if (name == "OneCycleLR") {
    OneCycleLROptions options{.max_lr = o.at("max_lr").get<double>(), .total_steps = o.at("total_steps")};
    options.pct_start = o.value("pct_start", options.pct_start);
    options.div_factor = o.value("div_factor", options.div_factor);
    options.final_div_factor = o.value("final_div_factor", options.final_div_factor);
    options.three_phase = o.value("three_phase", options.three_phase);
    if (o.value("anneal_strategy", "cos") == "linear") options.anneal_strategy = Anneal::linear;
    return std::make_unique<OneCycleLR>(optimizer, options);
  }
  return nullptr;
}

TEST(ScheduleReference, EverySchedule) {
  for (const Json& run : reference_file().at("schedules")) {
    optim::SGD optimizer({zeros({1})}, {.lr = run.at("initial_lr"), .momentum = 0.9});
    const auto schedule = make_schedule(run.at("schedule"), optimizer, run.at("options"));
    ASSERT_TRUE(schedule) << "missing schedule: " << run.at("schedule");
    Values got;
    for (std::size_t i = 0; i < run.at("lr").size(); ++i) {
      got.push_back(optimizer.lr());
      schedule->step();
    }
    expect_close(got, flat(run.at("lr")), described(run, "schedule"));
  }
}

}  // namespace
}  // namespace lockstep
