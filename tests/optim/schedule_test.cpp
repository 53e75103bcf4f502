// Schedules beyond the reference vectors: against naive code for PyTorch's recurrences; resuming; errors.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include <lockstep/optim/adagrad.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/one_cycle.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/optim/sequential_lr.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/creation.h>

namespace lockstep {
namespace {

using std::numbers::pi;

std::vector<Tensor> one() { return {zeros({1})}; }

TEST(Schedules, WarmRestartsStartAgainInLongerRounds) {
  optim::SGD optimizer(one(), {.lr = 0.5});
  optim::CosineAnnealingWarmRestarts schedule(optimizer, {.T_0 = 3, .T_mult = 2, .eta_min = 0.1});
  int at = 0, round = 3;
  for (int epoch = 0; epoch < 40; ++epoch) {
    EXPECT_NEAR(optimizer.lr(), 0.1 + 0.4 * (1 + std::cos(pi * at / round)) / 2, 1e-15) << epoch;
    schedule.step();
    if (++at == round) {
      at = 0;
      round *= 2;
    }
  }
}

TEST(Schedules, PolynomialsFallToZero) {
  optim::SGD optimizer(one(), {.lr = 0.5});
  optim::PolynomialLR schedule(optimizer, {.total_iters = 10, .power = 2});
  double expected = 0.5;
  for (int epoch = 0; epoch < 15; ++epoch) {
    EXPECT_NEAR(optimizer.lr(), expected, 1e-15) << epoch;
    expected = epoch < 10 ? expected * std::pow((10. - (epoch + 1)) / (10. - epoch), 2) : 0;
    schedule.step();
  }
}

TEST(Schedules, OneCycleTurnsAtItsPhases) {
  optim::SGD optimizer(one(), {.momentum = 0.5});
  optim::OneCycleLR schedule(optimizer, {.max_lr = 1,
                                         .total_steps = 101,
                                         .pct_start = 0.4,
                                         .anneal_strategy = optim::Anneal::linear,
                                         .div_factor = 10,
                                         .final_div_factor = 100,
                                         .three_phase = true});
  const double up = 0.4 * 101 - 1, down = 2 * up;
  for (int epoch = 0; epoch <= 100; ++epoch) {
    const double climb = epoch <= up ? epoch / up : epoch <= down ? 1 - (epoch - up) / up : 0;
    const double lr = epoch <= down ? 0.1 + 0.9 * climb : 0.1 + (0.001 - 0.1) * (epoch - down) / (100 - down);
    EXPECT_NEAR(optimizer.lr(), lr, 1e-14) << epoch;
    EXPECT_NEAR(*optimizer.momentum(), 0.95 - 0.1 * climb, 1e-14) << epoch;
    schedule.step();
  }
  EXPECT_NEAR(optimizer.lr(), 0.001, 1e-15);  // stays at the last step's rate instead of following a line
  EXPECT_NEAR(*optimizer.momentum(), 0.95, 1e-15);
  EXPECT_THROW(schedule.step(), InvalidArgument);
  EXPECT_EQ(schedule.last_epoch(), 101);
}

TEST(Schedules, OneCycleMovesTheFirstBetaAlongACosine) {
  optim::Adam optimizer(one(), {});
  optim::OneCycleLR schedule(optimizer, {.max_lr = 1, .total_steps = 20, .pct_start = 0.5});
  for (int epoch = 0; epoch < 20; ++epoch) {
    const double cosine = epoch <= 9 ? (1 - std::cos(pi * epoch / 9)) / 2 : (1 + std::cos(pi * (epoch - 9) / 10)) / 2;
    EXPECT_NEAR(optimizer.options().betas[0], 0.95 - 0.1 * cosine, 1e-14) << epoch;
    EXPECT_EQ(optimizer.options().betas[1], 0.999);
    schedule.step();
  }
}

TEST(Schedules, FollowEachOtherInASequence) {
  optim::SGD optimizer(one(), {.lr = 0.5});
  optim::SequentialLR schedule(optimizer,
                               {.schedulers = {optim::LinearLROptions{.start_factor = 0.25, .total_iters = 4},
                                               optim::CosineAnnealingLROptions{.T_max = 6, .eta_min = 0.1},
                                               optim::ExponentialLROptions{.gamma = 0.5}},
                                .milestones = {4, 10}});
  for (int step = 0; step < 14; ++step) {
    const double expected = step < 4    ? 0.5 * (0.25 + 0.75 * step / 4)
                            : step < 10 ? 0.1 + 0.4 * (1 + std::cos(pi * (step - 4) / 6)) / 2
                                        : 0.5 * std::pow(0.5, step - 10);
    EXPECT_NEAR(optimizer.lr(), expected, 1e-15) << step;
    schedule.step();
  }
}

TEST(Schedules, ServeEveryGroupFromItsOwnRate) {
  optim::SGD optimizer({{one(), {.lr = 1}}, {one(), {.lr = 10}}});
  optim::ExponentialLR schedule(optimizer, {.gamma = 0.5});
  schedule.step();
  EXPECT_EQ(schedule.get_last_lr(), (std::vector<double>{0.5, 5}));
  EXPECT_EQ(optimizer.lr(1), 5);
  optim::OneCycleLR cycle(optimizer, {.max_lr = {1, 2}, .total_steps = 10});
  EXPECT_NEAR(optimizer.lr(1), 0.08, 1e-15);
}

TEST(Schedules, AreValues) {
  optim::SGD optimizer(one(), {.lr = 1});
  optim::StepLR schedule(optimizer, {.step_size = 2});
  optim::StepLR copy = schedule;
  copy.step();
  copy.step();
  EXPECT_EQ(copy.last_epoch(), 2);
  EXPECT_EQ(schedule.last_epoch(), 0);
}

TEST(ScheduleState, ResumesBitForBit) {
  optim::SGD first(one(), {.lr = 0.3}), second(one(), {.lr = 0.7});
  optim::CosineAnnealingLR straight(first, {.T_max = 9}), resumed(second, {.T_max = 9});
  for (int i = 0; i < 5; ++i) straight.step();
  resumed.load_state_dict(straight.state_dict());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(second.lr(), first.lr());
    straight.step();
    resumed.step();
  }
}

TEST(ScheduleState, NamesAllThatIsWrongAndChangesNothing) {
  optim::SGD optimizer(one(), {.lr = 0.3});
  optim::StepLR schedule(optimizer, {});
  schedule.step();
  StateDict bad;
  bad.add("base_lrs", tensor({1., 2.}));
  bad.add("odd", tensor(1));
  try {
    schedule.load_state_dict(bad);
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(
        error.what(),
        "[Schedule.load_state_dict] the state dict does not match this Schedule: missing key \"last_epoch\"; key "
        "\"base_lrs\" has shape [2], expected [1]; unexpected key \"odd\"");
  }
  EXPECT_EQ(schedule.last_epoch(), 1);
  EXPECT_NEAR(optimizer.lr(), 0.03, 1e-15);
}

TEST(ScheduleState, ThatLeadsBeyondTheScheduleChangesNothing) {
  optim::SGD optimizer(one(), {.lr = 0.3}), other(one(), {.lr = 0.7});
  optim::OneCycleLR shorter(optimizer, {.max_lr = 1, .total_steps = 10, .cycle_momentum = false}),
      longer(other, {.max_lr = 1, .total_steps = 100, .cycle_momentum = false});
  for (int i = 0; i < 20; ++i) longer.step();
  shorter.step();
  const double lr = optimizer.lr();
  EXPECT_THROW(shorter.load_state_dict(longer.state_dict()), InvalidArgument);
  EXPECT_EQ(shorter.last_epoch(), 1);
  EXPECT_EQ(optimizer.lr(), lr);
  EXPECT_EQ(shorter.state_dict().at("base_lrs").to_vector<double>(), std::vector<double>{0.3});
}

TEST(ScheduleRefusals, NameTheOption) {
  optim::SGD optimizer(one(), {});
  optim::Adagrad adagrad(one(), {});
  EXPECT_THROW(optim::StepLR(optimizer, {.step_size = 0}), InvalidArgument);
  EXPECT_THROW(optim::CosineAnnealingLR(optimizer, {.T_max = 0}), InvalidArgument);
  EXPECT_THROW(optim::CosineAnnealingWarmRestarts(optimizer, {.T_0 = 3, .T_mult = 0}), InvalidArgument);
  EXPECT_THROW(optim::LinearLR(optimizer, {.start_factor = 0}), InvalidArgument);
  EXPECT_THROW(optim::PolynomialLR(optimizer, {.total_iters = 0}), InvalidArgument);
  EXPECT_THROW(optim::OneCycleLR(optimizer, {.max_lr = 1}), InvalidArgument);
  EXPECT_THROW(optim::OneCycleLR(optimizer, {.max_lr = {1, 2}, .total_steps = 5}), InvalidArgument);
  EXPECT_THROW(optim::OneCycleLR(adagrad, {.max_lr = 1, .total_steps = 5}), InvalidArgument);
  EXPECT_THROW(optim::OneCycleLR(optimizer, {.max_lr = -1, .total_steps = 5}), InvalidArgument);
  EXPECT_THROW(optim::OneCycleLR(optimizer, {.max_lr = 1, .total_steps = 5, .max_momentum = 1.5}), InvalidArgument);
  const optim::ScheduleOptions half = optim::ExponentialLROptions{.gamma = 0.5}, wrong = optim::StepLROptions{0};
  EXPECT_THROW(optim::SequentialLR(optimizer, {}), InvalidArgument);
  EXPECT_THROW(optim::SequentialLR(optimizer, {.schedulers = {half, half}}), InvalidArgument);
  EXPECT_THROW(optim::SequentialLR(optimizer, {.schedulers = {half, half}, .milestones = {0}}), InvalidArgument);
  EXPECT_THROW(optim::SequentialLR(optimizer, {.schedulers = {half, half, half}, .milestones = {2, 2}}),
               InvalidArgument);
  EXPECT_THROW(optim::SequentialLR(optimizer, {.schedulers = {half, wrong}, .milestones = {2}}), InvalidArgument);
  EXPECT_EQ(optimizer.lr(), 0.001);
  EXPECT_NO_THROW(optim::OneCycleLR(adagrad, {.max_lr = 1, .total_steps = 5, .cycle_momentum = false}));
}

}  // namespace
}  // namespace lockstep
