// ReduceLROnPlateau against PyTorch's rule, computed by hand.
#include <lockstep/optim/reduce_lr_on_plateau.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/creation.h>

#include "support/thrown.h"

namespace lockstep {
namespace {

using optim::MetricMode;
using optim::ReduceLROnPlateau;
using optim::ReduceLROnPlateauOptions;
using optim::ThresholdMode;

// The rate after each of these metrics, starting from 1.
std::vector<double> rates(const ReduceLROnPlateauOptions& options, const std::vector<double>& metrics) {
  optim::SGD optimizer({zeros({1})}, {.lr = 1});
  ReduceLROnPlateau schedule(optimizer, options);
  std::vector<double> after;
  for (const double metric : metrics) {
    schedule.step(metric);
    after.push_back(optimizer.lr());
    EXPECT_EQ(schedule.get_last_lr(), std::vector<double>{optimizer.lr()});
  }
  return after;
}
using Rates = std::vector<double>;

TEST(ReduceLROnPlateau, ReducesAfterMoreBadStepsInSequenceThanPatience) {
  EXPECT_EQ(rates({.factor = 0.5, .patience = 2}, {5, 4, 4, 4, 3, 3, 3, 3, 3}), (Rates{1, 1, 1, 1, 1, 1, 1, 0.5, 0.5}));
  EXPECT_EQ(rates({.factor = 0.5, .patience = 0}, {5, 5, 4, 6, 6}), (Rates{1, 0.5, 0.5, 0.25, 0.125}));
}

TEST(ReduceLROnPlateau, CountsAnImprovementByMoreThanTheThreshold) {
  const ReduceLROnPlateauOptions options = {.factor = 0.5, .patience = 0, .threshold = 0.25};
  const auto with = [&](MetricMode mode, ThresholdMode threshold_mode) {
    ReduceLROnPlateauOptions changed = options;
    changed.mode = mode;
    changed.threshold_mode = threshold_mode;
    return changed;
  };
  // A metric is better below 8 (1 - 1/4) = 6, then below 5 (3/4) = 3.75.
  EXPECT_EQ(rates(with(MetricMode::min, ThresholdMode::rel), {8, 6, 5, 3.75}), (Rates{1, 0.5, 0.5, 0.25}));
  // A metric is better above 4 (1 + 1/4) = 5, then above 7.5.
  EXPECT_EQ(rates(with(MetricMode::max, ThresholdMode::rel), {4, 5, 6, 7.5}), (Rates{1, 0.5, 0.5, 0.25}));
  EXPECT_EQ(rates(with(MetricMode::min, ThresholdMode::abs), {8, 7.75, 7.5, 7.25}), (Rates{1, 0.5, 0.5, 0.25}));
  EXPECT_EQ(rates(with(MetricMode::max, ThresholdMode::abs), {8, 8.25, 8.5, 8.75}), (Rates{1, 0.5, 0.5, 0.25}));
}

TEST(ReduceLROnPlateau, LeavesOutTheStepsOfTheCooldown) {
  EXPECT_EQ(rates({.factor = 0.5, .patience = 0, .cooldown = 2}, {1, 1, 1, 1, 1, 1}),
            (Rates{1, 0.5, 0.5, 0.5, 0.25, 0.25}));
}

TEST(ReduceLROnPlateau, ReducesNoFurtherThanMinLrAndNotByAsLittleAsEps) {
  EXPECT_EQ(rates({.factor = 0.5, .patience = 0, .min_lr = 0.3}, {1, 1, 1, 1}), (Rates{1, 0.5, 0.3, 0.3}));
  EXPECT_EQ(rates({.factor = 0.5, .patience = 0, .eps = 0.25}, {1, 1, 1, 1}), (Rates{1, 0.5, 0.5, 0.5}));
}

TEST(ReduceLROnPlateau, TakesNaNForNoImprovement) {
  EXPECT_EQ(rates({.factor = 0.5, .patience = 1}, {1, NAN, NAN, 0.5}), (Rates{1, 1, 0.5, 0.5}));
}

TEST(ReduceLROnPlateau, MultipliesTheRateOfEachGroup) {
  optim::SGD optimizer({{{zeros({1})}, {.lr = 1}}, {{zeros({1})}, {.lr = 0.1}}});
  ReduceLROnPlateau schedule(optimizer, {.factor = 0.5, .patience = 0, .min_lr = 0.07});
  schedule.step(1);
  schedule.step(1);
  EXPECT_EQ(optimizer.lr(0), 0.5);
  EXPECT_EQ(optimizer.lr(1), 0.07);
}

TEST(ReduceLROnPlateau, GoesOnFromItsState) {
  const std::vector<double> metrics = {5, 4, 4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 2};
  const ReduceLROnPlateauOptions options = {.factor = 0.5, .patience = 1, .cooldown = 1};
  const std::vector<double> expected = rates(options, metrics);
  for (std::size_t cut = 0; cut <= metrics.size(); ++cut) {
    optim::SGD first({zeros({1})}, {.lr = 1}), second({zeros({1})}, {.lr = 0.3});
    ReduceLROnPlateau before(first, options), after(second, options);
    for (std::size_t i = 0; i < cut; ++i) before.step(metrics[i]);
    second.load_state_dict(first.state_dict());
    after.load_state_dict(before.state_dict());
    EXPECT_EQ(after.last_epoch(), std::int64_t(cut));
    for (std::size_t i = cut; i < metrics.size(); ++i) {
      after.step(metrics[i]);
      EXPECT_EQ(second.lr(), expected[i]) << cut << ' ' << i;
    }
  }
}

TEST(ReduceLROnPlateau, RefusesOptionsAndStateThatDoNotFit) {
  optim::SGD optimizer({zeros({1})}, {.lr = 1});
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] { ReduceLROnPlateau(optimizer, {.factor = 1}); }),
            "[ReduceLROnPlateau] expected factor in [0, 1), got 1");
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] { ReduceLROnPlateau(optimizer, {.patience = -1}); }),
            "[ReduceLROnPlateau] expected patience of at least 0, got -1");
  ReduceLROnPlateau schedule(optimizer);
  schedule.step(3);
  StateDict state;
  state.add("best", zeros({}));
  EXPECT_THROW(schedule.load_state_dict(state), InvalidArgument);
  EXPECT_EQ(schedule.best(), 3);
}

}  // namespace
}  // namespace lockstep
