#include <lockstep/optim/radam.h>

#include <cmath>

#include <lockstep/optim/rule.h>

namespace lockstep::optim {
namespace {

struct RAdamRule {
  double beta1, beta2, take1, take2;
  double step_size;  // the factor of the mean gradient; if `rectified`, includes the rectification term
  bool rectified;    // true: divides the step by the root of the mean square
  double eps;
  double shrink;  // the parameter is multiplied by it: decoupled weight decay
  Direction direction;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& mean, T& square) const {
    g = direction.of(g, p);
    mean = T(beta1) * mean + T(take1) * g;
    square = T(beta2) * square + T(take2) * g * g;
    const T step = T(step_size) * mean;
    p = T(shrink) * p - (rectified ? step / (std::sqrt(square) + T(eps)) : step);
  }
};

}  // namespace

void RAdamOptions::check() const {
  require_not_negative(kName, {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}});
  require_betas(kName, betas);
}

std::vector<Slot> RAdam::slots(std::size_t) const { return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}}; }

void RAdam::update(std::size_t group, const Batch& batch) const {
  const RAdamOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  const double left = std::pow(beta2, batch.step), correction1 = 1 - std::pow(beta1, batch.step);
  const double most = 2 / (1 - beta2) - 1;  // the length of the moving average after many steps
  const double length = most - 2 * batch.step * left / (1 - left);
  const bool rectified = length > 5;
  double step_size = o.lr / correction1;
  if (rectified)
    step_size *=
        std::sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) * std::sqrt(1 - left);
  apply<0, 1>("radam", 16,
              RAdamRule{.beta1 = beta1,
                        .beta2 = beta2,
                        .take1 = 1 - beta1,
                        .take2 = 1 - beta2,
                        .step_size = step_size,
                        .rectified = rectified,
                        .eps = o.eps,
                        .shrink = o.decoupled_weight_decay ? 1 - o.lr * o.weight_decay : 1,
                        .direction = Direction(o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay)},
              batch);
}

}  // namespace lockstep::optim
