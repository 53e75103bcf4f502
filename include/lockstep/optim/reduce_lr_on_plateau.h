// ReduceLROnPlateau: a rate that falls when a metric stops improving. Options, defaults and rule are PyTorch's.
//
//   optim::ReduceLROnPlateau schedule(optimizer, {.factor = 0.5, .patience = 2});
//   for (...) { ...; schedule.step(validation_loss); }
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/core/choice.h>
#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

/// Whether a metric is better when it is less, or greater.
enum class MetricMode : std::uint8_t { min, max };
/// What a metric must differ from the best one by, to be better: a part of the best one, or a number.
enum class ThresholdMode : std::uint8_t { rel, abs };

}  // namespace lockstep::optim

template <>
struct lockstep::ChoiceNames<lockstep::optim::MetricMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::string_view kNames[] = {"min", "max"};
};
template <>
struct lockstep::ChoiceNames<lockstep::optim::ThresholdMode> {
  static constexpr const char* kOption = "threshold_mode";
  static constexpr std::string_view kNames[] = {"rel", "abs"};
};

namespace lockstep::optim {

struct ReduceLROnPlateauOptions {
  Choice<MetricMode> mode = MetricMode::min;
  double factor = 0.1;         ///< New rate: the old one times this. Below 1.
  std::int64_t patience = 10;  ///< So many steps in sequence may be no better; the next one reduces the rate.
  double threshold = 1e-4;     ///< How much better than the best one a metric must be to count.
  Choice<ThresholdMode> threshold_mode = ThresholdMode::rel;  ///< How threshold is meant.
  std::int64_t cooldown = 0;                                  ///< Steps after a reduction that do not count.
  double min_lr = 0;                                          ///< No rate goes below it.
  double eps = 1e-8;                                          ///< A rate that would change by no more than this stays.
};

/// Refers to an optimizer, which must outlive it. Unlike a Schedule it multiplies the rates that the optimizer has.
class LOCKSTEP_API ReduceLROnPlateau {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});

  /// NaN is no better than anything.
  void step(double metric);

  MetricMode mode() const noexcept { return options_.mode; }  ///< Which values are better.
  double best() const noexcept { return best_; }              ///< Infinite, of the worse sign, before the first step.
  std::int64_t num_bad_epochs() const noexcept { return num_bad_epochs_; }  ///< Steps in sequence that were no better.
  std::int64_t last_epoch() const noexcept { return last_epoch_; }          ///< How often step() was called.
  /// Of each group, as the last step left them.
  const std::vector<double>& get_last_lr() const noexcept { return last_lr_; }
  const Optimizer& optimizer() const noexcept { return *optimizer_; }

  /// The rates are the optimizer's, and in its state dict.
  StateDict state_dict() const;
  /// All missing, unexpected and unfit keys are named in one InvalidArgument, before anything is changed.
  void load_state_dict(const StateDict& state);

 private:
  bool is_better(double metric) const noexcept;
  void reduce();

  Optimizer* optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t num_bad_epochs_ = 0;
  std::int64_t cooldown_counter_ = 0;
  std::int64_t last_epoch_ = 0;
  std::vector<double> last_lr_;
};

}  // namespace lockstep::optim
