// Cyclical learning rates: Smith 2017.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include <lockstep/core/choice.h>
#include <lockstep/optim/schedule.h>

namespace lockstep::optim {

/// The amplitude of the cycles: constant, halved with each cycle, or multiplied by gamma in each step.
enum class CyclicMode : std::uint8_t { triangular, triangular2, exp_range };
/// The argument of scale_fn: the number of the cycle, counted from 1, or the number of the step.
enum class ScaleMode : std::uint8_t { cycle, iterations };

}  // namespace lockstep::optim

template <>
struct lockstep::ChoiceNames<lockstep::optim::CyclicMode> {
  static constexpr const char* kOption = "mode";
  static constexpr std::string_view kNames[] = {"triangular", "triangular2", "exp_range"};
};
template <>
struct lockstep::ChoiceNames<lockstep::optim::ScaleMode> {
  static constexpr const char* kOption = "scale_mode";
  static constexpr std::string_view kNames[] = {"cycle", "iterations"};
};

namespace lockstep::optim {

struct CyclicLROptions {
  PerGroup base_lr = 1e-3;                          ///< The smallest rate.
  PerGroup max_lr = 1e-2;                           ///< The greatest rate of the first cycle.
  std::int64_t step_size_up = 2000;                 ///< Number of steps in which the rate grows.
  std::optional<std::int64_t> step_size_down = {};  ///< Number of steps in which it falls; default: step_size_up.
  Choice<CyclicMode> mode = CyclicMode::triangular;
  double gamma = 1;                                 ///< The base of exp_range's powers.
  std::function<double(double)> scale_fn = {};      ///< Gives the factor of the amplitude, instead of the mode.
  Choice<ScaleMode> scale_mode = ScaleMode::cycle;  ///< The argument of scale_fn.
  bool cycle_momentum = true;                       ///< True: momentum (or the first of betas) falls as the rate grows.
  double base_momentum = 0.8;                       ///< The smallest momentum.
  double max_momentum = 0.9;                        ///< The greatest momentum.
};

/// Call step() after each batch. The constructor throws InvalidArgument if options are out of range, or if
/// cycle_momentum is set and the optimizer has no momentum.
class LOCKSTEP_API CyclicLR final : public Schedule {
 public:
  CyclicLR(Optimizer& optimizer, const CyclicLROptions& options);

 private:
  double lr_at(std::int64_t epoch, double base_lr, std::size_t group) const override;
  std::optional<double> momentum_at(std::int64_t epoch) const override;
  /// The position of the step's rate between the smallest rate (0) and the greatest (1).
  double height(std::int64_t epoch) const;

  CyclicLROptions options_;
};

}  // namespace lockstep::optim
