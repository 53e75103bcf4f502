// Adam and AdamW.
#pragma once

#include <lockstep/optim/optimizer.h>

namespace lockstep::optim {

template <bool kDecoupled>
struct BasicAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = kDecoupled ? 1e-2 : 0;
  bool amsgrad = false;  ///< Uses the maximum of all mean squares so far in place of the latest.
  bool maximize = false;

  static constexpr const char* kName = kDecoupled ? "AdamW" : "Adam";
  void check() const;
  auto members() {
    return lockstep::members("lr", lr, "betas", betas, "eps", eps, "weight_decay", weight_decay, "amsgrad", amsgrad,
                             "maximize", maximize);
  }
};

/// Kingma, Ba 2015; amsgrad: Reddi, Kale, Kumar 2018; decoupled weight decay (AdamW): Loshchilov, Hutter 2019. State:
/// exp_avg, exp_avg_sq, and max_exp_avg_sq with amsgrad.
template <bool kDecoupled>
class LOCKSTEP_API BasicAdam final : public OptimizerWith<BasicAdamOptions<kDecoupled>> {
 public:
  using OptimizerWith<BasicAdamOptions<kDecoupled>>::OptimizerWith;

 private:
  std::vector<Slot> slots(std::size_t group) const override;
  void update(std::size_t group, const Batch& batch) const override;
};

using AdamOptions = BasicAdamOptions<false>;  ///< Options of Adam.
using AdamWOptions = BasicAdamOptions<true>;  ///< Options of AdamW.
using Adam = BasicAdam<false>;                ///< Adds the weight decay to the gradient.
using AdamW = BasicAdam<true>;                ///< Shrinks the parameter by the weight decay.

extern template struct LOCKSTEP_API BasicAdamOptions<false>;
extern template struct LOCKSTEP_API BasicAdamOptions<true>;
extern template class LOCKSTEP_API BasicAdam<false>;
extern template class LOCKSTEP_API BasicAdam<true>;

}  // namespace lockstep::optim
