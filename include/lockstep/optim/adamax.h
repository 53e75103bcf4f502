// Adamax: Adam with the infinity norm.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;

  static constexpr const char* kName = "Adamax";
  LOCKSTEP_API void check() const;
  auto members() {
    return lockstep::members("lr", lr, "betas", betas, "eps", eps, "weight_decay", weight_decay, "maximize", maximize);
  }
};

/// Kingma, Ba 2015, section 7.1. State: exp_avg, exp_inf.
class LOCKSTEP_API Adamax final : public OptimizerWith<AdamaxOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<Slot> slots(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) const override;
};

}  // namespace lockstep::optim
