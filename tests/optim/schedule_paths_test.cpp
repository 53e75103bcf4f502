// Schedules given by functions, cyclic ones and SWALR against PyTorch's rates: tests/reference/optimizer_paths.json.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include <lockstep/optim/cyclic_lr.h>
#include <lockstep/optim/lambda_lr.h>
#include <lockstep/optim/sequential_lr.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/optim/swa_lr.h>
#include <lockstep/tensor/creation.h>

#include "reference/data.h"

namespace lockstep {
namespace {

using namespace optim;
using reference::Json;

const Json& paths() {
  static const Json file = reference::read_json(reference::folder() + "/optimizer_paths.json");
  return file;
}

SGD two_groups() {
  return SGD({{{zeros({1})}, {.lr = 0.5, .momentum = 0.9}}, {{zeros({1})}, {.lr = 0.2, .momentum = 0.9}}});
}

using Make = std::function<std::unique_ptr<Schedule>(Optimizer&)>;

template <class S, class... Options>
Make made(const Options&... options) {
  return [=](Optimizer& o) -> std::unique_ptr<Schedule> { return std::make_unique<S>(o, options...); };
}
Make cyclic(const CyclicLROptions& options) { return made<CyclicLR>(options); }

const std::vector<std::pair<std::string, Make>>& schedules() {
  static const std::vector<std::pair<std::string, Make>> all = {
      {"LambdaLR", made<LambdaLR>([](std::int64_t e) { return std::pow(0.95, e); })},
      {"LambdaLR of each group", made<LambdaLR>(LambdaLROptions{{[](std::int64_t e) { return 1 / (1 + double(e)); },
                                                                 [](std::int64_t e) { return double(e) + 0.5; }}})},
      {"MultiplicativeLR", made<MultiplicativeLR>([](std::int64_t e) { return e % 3 ? 0.9 : 1.2; })},
      {"ConstantLR", made<ConstantLR>()},
      {"ConstantLR options", made<ConstantLR>(0.25, 9)},
      {"CyclicLR", cyclic({.base_lr = 0.01, .max_lr = 0.1, .step_size_up = 4})},
      {"CyclicLR down", cyclic({.base_lr = {0.01, 0.02},
                                .max_lr = {0.1, 0.3},
                                .step_size_up = 3,
                                .step_size_down = 5,
                                .base_momentum = 0.7,
                                .max_momentum = 0.95})},
      {"CyclicLR triangular2",
       cyclic({.base_lr = 0.01, .max_lr = 0.1, .step_size_up = 4, .mode = "triangular2", .cycle_momentum = false})},
      {"CyclicLR exp_range",
       cyclic({.base_lr = 0.01, .max_lr = 0.1, .step_size_up = 4, .mode = "exp_range", .gamma = 0.97})},
      {"CyclicLR scale_fn", cyclic({.base_lr = 0.01,
                                    .max_lr = 0.1,
                                    .step_size_up = 4,
                                    .step_size_down = 2,
                                    .scale_fn = [](double x) { return 1 / x; }})},
      {"CyclicLR scale_fn iterations", cyclic({.base_lr = 0.01,
                                               .max_lr = 0.1,
                                               .step_size_up = 4,
                                               .scale_fn = [](double x) { return std::pow(0.9, x); },
                                               .scale_mode = "iterations"})},
      {"OneCycleLR epochs", made<OneCycleLR>(OneCycleLROptions{.max_lr = 0.1, .epochs = 6, .steps_per_epoch = 6})},
      {"SWALR", made<SWALR>(SWALROptions{.swa_lr = 0.05})},
      {"SWALR linear",
       made<SWALR>(SWALROptions{.swa_lr = {0.05, 0.9}, .anneal_epochs = 5, .anneal_strategy = "linear"})},
      {"SWALR at once", made<SWALR>(SWALROptions{.swa_lr = 0.05, .anneal_epochs = 0})},
      {"SequentialLR", made<SequentialLR>(SequentialLROptions{
                           .schedulers = {ConstantLROptions{0.1, 100},
                                          LambdaLROptions{[](std::int64_t e) { return std::pow(0.8, e); }}},
                           .milestones = {5}})},
  };
  return all;
}

void expect_near(double got, double expected, const std::string& what) {
  EXPECT_NEAR(got, expected, 1e-13 * std::max(1., std::abs(expected))) << what;
}

TEST(SchedulePaths, AreThoseOfPyTorch) {
  ASSERT_EQ(paths().at("schedules").size(), schedules().size());
  for (std::size_t s = 0; s < schedules().size(); ++s) {
    const Json& run = paths().at("schedules")[s];
    const auto& [name, make] = schedules()[s];
    ASSERT_EQ(run.at("case").get<std::string>(), name);
    SGD optimizer = two_groups();
    const auto schedule = make(optimizer);
    for (std::size_t step = 0; step < 30; ++step) {
      const std::string where = name + " at step " + std::to_string(step);
      for (std::size_t g = 0; g < 2; ++g) expect_near(optimizer.lr(g), run.at("lr")[step][g].get<double>(), where);
      expect_near(*optimizer.momentum(), run.at("momentum")[step].get<double>(), where + ", momentum");
      schedule->step();
    }
  }
}

TEST(SchedulePaths, GoOnFromTheirState) {
  for (const auto& [name, make] : schedules()) {
    SGD first = two_groups(), second = two_groups();
    const auto straight = make(first), resumed = make(second);
    for (int i = 0; i < 7; ++i) straight->step();
    resumed->load_state_dict(straight->state_dict());
    for (int i = 0; i < 7; ++i) {
      EXPECT_EQ(second.lr(0), first.lr(0)) << name << i;
      EXPECT_EQ(second.lr(1), first.lr(1)) << name << i;
      EXPECT_EQ(second.momentum(), first.momentum()) << name << i;
      straight->step();
      resumed->step();
    }
  }
}

TEST(SchedulePaths, SWALRTakesOverFromAnotherSchedule) {
  SGD optimizer({zeros({1})}, {.lr = 0.5});
  StepLR step(optimizer, 3, 0.5);
  swa_utils::SWALR swa(optimizer, {.swa_lr = 0.05, .anneal_epochs = 4, .anneal_strategy = "linear"});
  for (std::size_t epoch = 0; epoch < 20; ++epoch) {
    expect_near(optimizer.lr(), paths().at("swa_after_step")[epoch].get<double>(), std::to_string(epoch));
    if (epoch >= 8)
      swa.step();
    else
      step.step();
  }
}

TEST(SchedulePaths, MultiplicativeLRCallsItsFunctionOnceForEachEpoch) {
  SGD optimizer({zeros({1})}, {.lr = 1});
  int calls = 0;
  MultiplicativeLR schedule(optimizer, [&calls](std::int64_t) { return ++calls, 0.5; });
  for (int i = 0; i < 10; ++i) schedule.step();
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(optimizer.lr(), std::pow(0.5, 10));
}

TEST(ScheduleRefusals, OfFunctionsAndCyclesNameTheOption) {
  SGD optimizer = two_groups(), plain({zeros({1})}, {});
  const auto half = [](std::int64_t) { return 0.5; };
  EXPECT_THROW(LambdaLR(optimizer, {.lr_lambda = std::vector<RateFunctions::Function>()}), InvalidArgument);
  EXPECT_THROW(LambdaLR(optimizer, {.lr_lambda = RateFunctions::Function()}), InvalidArgument);
  EXPECT_THROW(LambdaLR(optimizer, {.lr_lambda = {half, half, half}}), InvalidArgument);
  EXPECT_THROW(MultiplicativeLR(plain, {.lr_lambda = {half, half}}), InvalidArgument);
  const LambdaLROptions halves = {.lr_lambda = {half, half, half}};
  EXPECT_THROW(SequentialLR(optimizer, {.schedulers = {halves}}), InvalidArgument);
  EXPECT_THROW(ConstantLR(optimizer, {.factor = 1.5}), InvalidArgument);
  EXPECT_THROW(ConstantLR(optimizer, {.total_iters = 0}), InvalidArgument);
  EXPECT_THROW(CyclicLR(optimizer, {.step_size_up = 0}), InvalidArgument);
  EXPECT_THROW(CyclicLR(optimizer, {.base_lr = {1, 2, 3}}), InvalidArgument);
  EXPECT_THROW(CyclicLR(optimizer, {.mode = "saw"}), InvalidArgument);
  EXPECT_THROW(SWALR(optimizer, {.anneal_epochs = -1}), InvalidArgument);
  EXPECT_THROW(OneCycleLR(optimizer, {.max_lr = 1, .epochs = 3}), InvalidArgument);
  try {
    SWALR(optimizer, {.anneal_strategy = "cosine"});
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "[anneal_strategy] expected one of \"cos\", \"linear\", got \"cosine\"");
  }
  EXPECT_EQ(optimizer.lr(), 0.5);
  EXPECT_EQ(optimizer.momentum(), 0.9);
}

}  // namespace
}  // namespace lockstep
