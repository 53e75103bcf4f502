// Adadelta.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;  ///< Decay of the running averages.
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;

  static constexpr const char* kName = "Adadelta";
  LOCKSTEP_API void check() const;
  auto members() {
    return lockstep::members("lr", lr, "rho", rho, "eps", eps, "weight_decay", weight_decay, "maximize", maximize);
  }
};

/// Zeiler 2012. State: square_avg, acc_delta.
class LOCKSTEP_API Adadelta final : public OptimizerWith<AdadeltaOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<Slot> slots(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) const override;
};

}  // namespace lockstep::optim
