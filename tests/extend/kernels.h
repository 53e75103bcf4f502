// Kernels as users write them. lockstep_kernels() compiles their source.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include <lockstep/optim/optimizer.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::testing {

/// x sigmoid(beta x) gate, differentiable in all three.
Tensor swiglu(const Tensor& x, const Tensor& gate, const Tensor& beta);
/// 2 x. Not differentiable.
Tensor twice(const Tensor& x);
/// a + b. Not differentiable.
Tensor plus(const Tensor& a, const Tensor& b);
/// a + b and a - b. Not differentiable.
std::array<Tensor, 2> sum_and_difference(const Tensor& a, const Tensor& b);
/// x / sqrt(mean(x^2) + 1e-6) along `dim`. Not differentiable.
Tensor rms_norm_rows(const Tensor& x, std::int64_t dim = -1);
/// The sum of x y along the last dimension, `length` times along it.
Tensor dot_rows(const Tensor& x, const Tensor& y, std::int64_t length);

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;

  static constexpr const char* kName = "Lion";
  void check() const;
  auto members() { return lockstep::members("lr", lr, "betas", betas, "weight_decay", weight_decay); }
};

class Lion final : public optim::OptimizerWith<LionOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<optim::Slot> slots(std::size_t) const override { return {{.name = "exp_avg"}}; }
  void update(std::size_t group, const optim::Batch& batch) const override;
};

/// Names more slots than an optimizer may have.
std::unique_ptr<optim::Optimizer> greedy_optimizer(const Tensor& parameter);
/// Its rule uses a slot that it does not name.
std::unique_ptr<optim::Optimizer> careless_optimizer(const Tensor& parameter);

}  // namespace lockstep::testing
