// Stochastic gradient descent, with momentum.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;  ///< The fraction of the gradient that is not added to the buffer.
  double weight_decay = 0;
  bool nesterov = false;  ///< Needs momentum, and no dampening.
  bool maximize = false;

  static constexpr const char* kName = "SGD";
  LOCKSTEP_API void check() const;
  auto members() {
    return lockstep::members("lr", lr, "momentum", momentum, "dampening", dampening, "weight_decay", weight_decay,
                             "nesterov", nesterov, "maximize", maximize);
  }
};

/// buffer = g in the first step, later momentum * buffer + (1 - dampening) * g; p -= lr * buffer. With Nesterov's
/// momentum, p -= lr * (g + momentum * buffer) (Sutskever, Martens, Dahl, Hinton 2013). State: momentum_buffer.
class LOCKSTEP_API SGD final : public OptimizerWith<SGDOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<Slot> slots(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) const override;
};

}  // namespace lockstep::optim
