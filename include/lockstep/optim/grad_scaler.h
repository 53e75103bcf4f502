// Loss scaling for float16 gradients, which underflow below 6e-8: PyTorch's torch.amp.GradScaler. (bfloat16 has
// float32's range and needs no loss scaling.)
//
//   optim::GradScaler scaler;
//   for (auto [input, target] : loader) {
//     optimizer.zero_grad();
//     Tensor loss;
//     {
//       const Autocast region(kFloat16);
//       loss = nn::cross_entropy(model(input), target);
//     }
//     scaler.scale(loss).backward();
//     scaler.unscale_(optimizer);                     // only to see or clip gradients before the step
//     optim::clip_grad_norm_(model.parameters(), 1);
//     scaler.step(optimizer);                         // skips the step if a gradient is inf or NaN
//     scaler.update();
//   }
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/tensor/state_dict.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::optim {

class Optimizer;

struct GradScalerOptions {
  double init_scale = 65536;            ///< The first scale.
  double growth_factor = 2;             ///< The factor by which the scale grows.
  double backoff_factor = 0.5;          ///< The factor by which the scale shrinks after a skipped step.
  std::int64_t growth_interval = 2000;  ///< The scale grows after this many steps in a row with finite gradients.
  bool enabled = true;                  ///< False: scales nothing, and skips no step.
};

/// Options, defaults and order of calls are PyTorch's. All replicas of a parameter make the same decision. Not
/// thread-safe: one thread at a time may use a scaler.
class LOCKSTEP_API GradScaler {
 public:
  /// Throws InvalidArgument unless init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1 and growth_interval > 0.
  explicit GradScaler(const GradScalerOptions& options = {});

  bool is_enabled() const noexcept { return options_.enabled; }                ///< GradScalerOptions::enabled.
  double get_scale() const noexcept { return options_.enabled ? scale_ : 1; }  ///< The factor of the losses.

  /// The loss times the scale.
  Tensor scale(const Tensor& loss) const;
  /// Divides the gradients of the optimizer's parameters, in all replicas, by the scale, and records on each device
  /// if a gradient is not finite. Does not wait for devices. Throws InvalidArgument if called twice before update().
  void unscale_(Optimizer& optimizer);
  /// Unscales the gradients, unless unscale_() has done so, and calls optimizer.step() if all gradients are finite.
  /// Returns true if it called step(). Waits for the devices' results. Throws InvalidArgument if called twice before
  /// update().
  bool step(Optimizer& optimizer);
  /// Call this after the steps of all optimizers. The scale shrinks if a step was skipped, and grows after
  /// growth_interval updates without a skipped step.
  void update();

  /// Has the keys "scale", "growth_factor", "backoff_factor", "growth_interval" and "growth_tracker".
  StateDict state_dict() const;
  /// If keys are missing, unexpected or invalid, changes nothing and throws an InvalidArgument that names all of them.
  void load_state_dict(const StateDict& state);

 private:
  struct Progress {
    bool unscaled = false, stepped = false, found = false, failed = false;
    std::vector<Tensor> notes;  // float64: counts of elements that are not finite
  };

  static bool found(Progress& progress);
  static void check_not_failed(const Progress& progress);

  GradScalerOptions options_;
  double scale_;
  std::int64_t growth_tracker_ = 0;  // number of updates since the scale changed
  std::map<const Optimizer*, Progress> progress_;
};

}  // namespace lockstep::optim
