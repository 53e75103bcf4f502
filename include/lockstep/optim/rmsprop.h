// RMSprop, plain, centered and with momentum.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;  ///< Divides by the root of the gradient's variance instead of its mean square.
  bool maximize = false;

  static constexpr const char* kName = "RMSprop";
  LOCKSTEP_API void check() const;
  auto members() {
    return lockstep::members("lr", lr, "alpha", alpha, "eps", eps, "weight_decay", weight_decay, "momentum", momentum,
                             "centered", centered, "maximize", maximize);
  }
};

/// Hinton's lecture notes; centered: Graves 2013. State: square_avg, momentum_buffer with momentum, grad_avg if
/// centered.
class LOCKSTEP_API RMSprop final : public OptimizerWith<RMSpropOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<Slot> slots(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) const override;
};

}  // namespace lockstep::optim
