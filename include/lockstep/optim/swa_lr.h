// SWALR: anneals to the constant rate of stochastic weight averaging (nn/averaged_model.h).
#pragma once

#include <cstdint>

#include <lockstep/optim/one_cycle.h>
#include <lockstep/optim/schedule.h>

namespace lockstep::optim {

struct SWALROptions {
  PerGroup swa_lr = 1e-2;                        ///< The rate at the end of annealing and after it.
  std::int64_t anneal_epochs = 10;               ///< Number of annealing steps; may be 0.
  Choice<Anneal> anneal_strategy = Anneal::cos;  ///< The curve between two rates.
};

/// Anneals from the rates that the groups have at its first step(). Until then another schedule may set them.
class LOCKSTEP_API SWALR final : public Schedule {
 public:
  /// Throws InvalidArgument for options out of range.
  SWALR(Optimizer& optimizer, const SWALROptions& options);

 private:
  double lr_at(std::int64_t epoch, double base_lr, std::size_t group) const override;
  bool begins_at_first_step() const override { return true; }

  SWALROptions options_;
};

/// PyTorch's namespace of SWALR.
namespace swa_utils {
using optim::SWALR;
}  // namespace swa_utils

}  // namespace lockstep::optim
