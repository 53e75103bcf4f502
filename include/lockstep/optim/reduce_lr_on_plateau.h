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

/// The direction in which a metric improves: down (min) or up (max).
enum class MetricMode : std::uint8_t { min, max };
/// How much better than the best value a metric must be: relative to the best value, or absolute.
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
  double factor = 0.1;         ///< The new rate is the old one times factor. Below 1.
  std::int64_t patience = 10;  ///< Consecutive steps without improvement that are allowed; the next one reduces the
                               ///< rate.
  double threshold = 1e-4;     ///< How much better than the best value a metric must be.
  Choice<ThresholdMode> threshold_mode = ThresholdMode::rel;  ///< Relative or absolute.
  std::int64_t cooldown = 0;                                  ///< Steps after a reduction whose metric is ignored.
  double min_lr = 0;                                          ///< Lower bound of the rates.
  double eps = 1e-8;                                          ///< A rate that would change by at most this much stays.
};

/// Refers to an optimizer, which must outlive it. Unlike a Schedule, this multiplies the optimizer's present rates.
class LOCKSTEP_API ReduceLROnPlateau {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});

  /// NaN counts as no improvement.
  void step(double metric);

  MetricMode mode() const noexcept { return options_.mode; }  ///< The direction of improvement.
  double best() const noexcept { return best_; }              ///< At first infinity (min) or -infinity (max).
  std::int64_t num_bad_epochs() const noexcept { return num_bad_epochs_; }  ///< Consecutive steps without improvement.
  std::int64_t last_epoch() const noexcept { return last_epoch_; }          ///< Number of calls of step().
  /// The rate of each group after the last step.
  const std::vector<double>& get_last_lr() const noexcept { return last_lr_; }
  const Optimizer& optimizer() const noexcept { return *optimizer_; }

  /// Does not contain the rates, which are in the optimizer's state dict.
  StateDict state_dict() const;
  /// Before anything is changed, throws one InvalidArgument that names all missing, unexpected and invalid keys.
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
