#include <lockstep/optim/adamax.h>

#include <cmath>

#include <lockstep/optim/rule.h>

namespace lockstep::optim {
namespace {

struct AdamaxRule {
  double beta1, beta2, take1;
  double step_size;  // lr / (1 - beta1^step)
  double eps;
  Direction direction;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& mean, T& greatest) const {
    g = direction.of(g, p);
    mean = T(beta1) * mean + T(take1) * g;
    const T now = std::abs(g) + T(eps), before = T(beta2) * greatest;
    const T most = now > before || now != now ? now : before;  // a NaN stays the greatest
    greatest = most;
    p -= T(step_size) * mean / most;
  }
};

}  // namespace

void AdamaxOptions::check() const {
  require_not_negative(kName, {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}});
  require_betas(kName, betas);
}

std::vector<Slot> Adamax::slots(std::size_t) const { return {{.name = "exp_avg"}, {.name = "exp_inf"}}; }

void Adamax::update(std::size_t group, const Batch& batch) const {
  const AdamaxOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  apply<0, 1>("adamax", 12,
              AdamaxRule{.beta1 = beta1,
                         .beta2 = beta2,
                         .take1 = 1 - beta1,
                         .step_size = o.lr / (1 - std::pow(beta1, batch.step)),
                         .eps = o.eps,
                         .direction = Direction(o.maximize, o.weight_decay)},
              batch);
}

}  // namespace lockstep::optim
