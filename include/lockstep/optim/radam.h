// RAdam: Adam with a rectified variance in its first steps.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  ///< As in AdamW.
  bool maximize = false;

  static constexpr const char* kName = "RAdam";
  LOCKSTEP_API void check() const;
  auto members() {
    return lockstep::members("lr", lr, "betas", betas, "eps", eps, "weight_decay", weight_decay,
                             "decoupled_weight_decay", decoupled_weight_decay, "maximize", maximize);
  }
};

/// Liu, Jiang, He, Chen, Liu, Gao, Han 2020, with PyTorch's arithmetic: eps is added to the root before bias
/// correction. State: exp_avg, exp_avg_sq.
class LOCKSTEP_API RAdam final : public OptimizerWith<RAdamOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<Slot> slots(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) const override;
};

}  // namespace lockstep::optim
