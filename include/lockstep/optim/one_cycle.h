// The one-cycle policy: Smith, Topin 2018 ("Super-convergence").
#pragma once

#include <lockstep/core/choice.h>
#include <lockstep/optim/schedule.h>

namespace lockstep::optim {

/// The curve between two rates.
enum class Anneal : std::uint8_t { cos, linear };

}  // namespace lockstep::optim

template <>
struct lockstep::ChoiceNames<lockstep::optim::Anneal> {
  static constexpr const char* kOption = "anneal_strategy";
  static constexpr std::string_view kNames[] = {"cos", "linear"};
};

namespace lockstep::optim {

struct OneCycleLROptions {
  PerGroup max_lr = 1e-2;                        ///< The greatest rate.
  std::int64_t total_steps = 0;                  ///< Steps of the whole cycle; 0: epochs * steps_per_epoch.
  std::int64_t epochs = 0;                       ///< Used with steps_per_epoch if total_steps is 0.
  std::int64_t steps_per_epoch = 0;              ///< Batches per epoch.
  double pct_start = 0.3;                        ///< The fraction of the steps in which the rate grows.
  Choice<Anneal> anneal_strategy = Anneal::cos;  ///< The curve between two rates.
  bool cycle_momentum = true;                    ///< True: momentum (or the first of betas) falls as the rate grows.
  double base_momentum = 0.85;                   ///< The smallest momentum.
  double max_momentum = 0.95;                    ///< The greatest momentum.
  double div_factor = 25;                        ///< The first rate is max_lr / div_factor.
  double final_div_factor = 1e4;                 ///< The last rate is the first rate / final_div_factor.
  bool three_phase = false;  ///< True: falls to the first rate as slowly as it rose, then to the last.
};

/// Call step() after each batch. step() throws InvalidArgument after total_steps. The constructor throws
/// InvalidArgument if options are out of range, or if cycle_momentum is set and the optimizer has no momentum.
class LOCKSTEP_API OneCycleLR final : public Schedule {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);

 private:
  double lr_at(std::int64_t epoch, double base_lr, std::size_t group) const override;
  std::optional<double> momentum_at(std::int64_t epoch) const override;

  OneCycleLROptions options_;
};

}  // namespace lockstep::optim
