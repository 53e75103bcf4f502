// NAdam: Adam with Nesterov's momentum.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;         ///< How fast the momentum grows.
  bool decoupled_weight_decay = false;  ///< As in AdamW.
  bool maximize = false;

  static constexpr const char* kName = "NAdam";
  LOCKSTEP_API void check() const;
  auto members() {
    return lockstep::members("lr", lr, "betas", betas, "eps", eps, "weight_decay", weight_decay, "momentum_decay",
                             momentum_decay, "decoupled_weight_decay", decoupled_weight_decay, "maximize", maximize);
  }
};

/// Dozat 2016. State: exp_avg, exp_avg_sq, and mu_product, a float32 number.
class LOCKSTEP_API NAdam final : public OptimizerWith<NAdamOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<Slot> slots(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) const override;
  const char* scalar_state_name() const override { return "mu_product"; }
  double next_scalar_state(std::size_t group, double step, double before) const override;
};

}  // namespace lockstep::optim
