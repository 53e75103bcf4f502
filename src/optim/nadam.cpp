#include <lockstep/optim/nadam.h>

#include <cmath>

#include <lockstep/optim/rule.h>

namespace lockstep::optim {
namespace {

struct NAdamRule {
  double beta1, beta2, take1, take2;
  double gradient_step, mean_step;  // the factors of the gradient and of its mean
  double correction;                // 1 - beta2^step
  double eps;
  double shrink;  // the parameter is multiplied by it: decoupled weight decay
  Direction direction;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& mean, T& square) const {
    g = direction.of(g, p);
    mean = T(beta1) * mean + T(take1) * g;
    square = T(beta2) * square + T(take2) * g * g;
    const T root = std::sqrt(square / T(correction)) + T(eps);
    p = T(shrink) * p - T(gradient_step) * g / root - T(mean_step) * mean / root;
  }
};

// The momentum of a step.
double mu(const NAdamOptions& o, double step) {
  return o.betas[0] * (1 - 0.5 * std::pow(0.96, step * o.momentum_decay));
}

}  // namespace

void NAdamOptions::check() const {
  require_not_negative(kName,
                       {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}, {"momentum_decay", momentum_decay}});
  require_betas(kName, betas);
}

std::vector<Slot> NAdam::slots(std::size_t) const { return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}}; }

double NAdam::next_scalar_state(std::size_t group, double step, double before) const {
  // mu_product is rounded to float32 as PyTorch rounds it, so that the parameters agree with PyTorch's.
  return float(before) * float(mu(options(group), step));
}

void NAdam::update(std::size_t group, const Batch& batch) const {
  const NAdamOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  const double now = mu(o, batch.step), next = mu(o, batch.step + 1);
  apply<0, 1>("nadam", 19,
              NAdamRule{.beta1 = beta1,
                        .beta2 = beta2,
                        .take1 = 1 - beta1,
                        .take2 = 1 - beta2,
                        .gradient_step = o.lr * (1 - now) / (1 - batch.scalar_state),
                        .mean_step = o.lr * next / (1 - batch.scalar_state * next),
                        .correction = 1 - std::pow(beta2, batch.step),
                        .eps = o.eps,
                        .shrink = o.decoupled_weight_decay ? 1 - o.lr * o.weight_decay : 1,
                        .direction = Direction(o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay)},
              batch);
}

}  // namespace lockstep::optim
