#include <lockstep/optim/adam.h>

#include <cmath>

#include <lockstep/optim/rule.h>

namespace lockstep::optim {
namespace {

struct AdamRule {
  double beta1, beta2, take1, take2;  // take = 1 - beta
  double step_size;                   // lr / (1 - beta1^step)
  double root_correction;             // sqrt(1 - beta2^step)
  double eps;
  double shrink;  // the parameter is multiplied by it: decoupled weight decay
  Direction direction;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& mean, T& square) const {
    moments(p, g, mean, square);
    move(p, mean, square);
  }
  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& mean, T& square, T& greatest) const {
    moments(p, g, mean, square);
    greatest = square > greatest || square != square ? square : greatest;  // a NaN stays the greatest
    move(p, mean, greatest);
  }

 private:
  template <class T>
  LOCKSTEP_HD void moments(T& p, T g, T& mean, T& square) const {
    g = direction.of(g, p);
    p *= T(shrink);
    mean = T(beta1) * mean + T(take1) * g;
    square = T(beta2) * square + T(take2) * g * g;
  }
  template <class T>
  LOCKSTEP_HD void move(T& p, T mean, T square) const {
    p -= T(step_size) * mean / (std::sqrt(square) / T(root_correction) + T(eps));
  }
};

}  // namespace

template <bool kDecoupled>
void BasicAdamOptions<kDecoupled>::check() const {
  require_not_negative(kName, {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}});
  require_betas(kName, betas);
}

template <bool kDecoupled>
std::vector<Slot> BasicAdam<kDecoupled>::slots(std::size_t group) const {
  return {
      {.name = "exp_avg"}, {.name = "exp_avg_sq"}, {.name = "max_exp_avg_sq", .used = this->options(group).amsgrad}};
}

template <bool kDecoupled>
void BasicAdam<kDecoupled>::update(std::size_t group, const Batch& batch) const {
  const auto& o = this->options(group);
  const auto [beta1, beta2] = o.betas;
  const AdamRule rule{.beta1 = beta1,
                      .beta2 = beta2,
                      .take1 = 1 - beta1,
                      .take2 = 1 - beta2,
                      .step_size = o.lr / (1 - std::pow(beta1, batch.step)),
                      .root_correction = std::sqrt(1 - std::pow(beta2, batch.step)),
                      .eps = o.eps,
                      .shrink = kDecoupled ? 1 - o.lr * o.weight_decay : 1,
                      .direction = Direction(o.maximize, kDecoupled ? 0 : o.weight_decay)};
  if (o.amsgrad)
    apply<0, 1, 2>("adam_amsgrad", 18, rule, batch);
  else
    apply<0, 1>("adam", 17, rule, batch);
}

template struct BasicAdamOptions<false>;
template struct BasicAdamOptions<true>;
template class BasicAdam<false>;
template class BasicAdam<true>;

}  // namespace lockstep::optim
