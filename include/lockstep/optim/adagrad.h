// Adagrad.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;  ///< Step n uses lr / (1 + (n - 1) lr_decay).
  double weight_decay = 0;
  double initial_accumulator_value = 0;  ///< Initial value of the sum of squares.
  double eps = 1e-10;
  bool maximize = false;

  static constexpr const char* kName = "Adagrad";
  LOCKSTEP_API void check() const;
  auto members() {
    return lockstep::members("lr", lr, "lr_decay", lr_decay, "weight_decay", weight_decay, "initial_accumulator_value",
                             initial_accumulator_value, "eps", eps, "maximize", maximize);
  }
};

/// Duchi, Hazan, Singer 2011. State: sum.
class LOCKSTEP_API Adagrad final : public OptimizerWith<AdagradOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<Slot> slots(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) const override;
};

}  // namespace lockstep::optim
