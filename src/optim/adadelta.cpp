#include <lockstep/optim/adadelta.h>

#include <cmath>

#include <lockstep/optim/rule.h>

namespace lockstep::optim {
namespace {

struct AdadeltaRule {
  double lr, rho, take;  // take = 1 - rho
  double eps;
  Direction direction;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& square, T& moved) const {
    g = direction.of(g, p);
    const T mean = T(rho) * square + T(take) * g * g;
    square = mean;
    const T delta = std::sqrt(moved + T(eps)) / std::sqrt(mean + T(eps)) * g;
    moved = T(rho) * moved + T(take) * delta * delta;
    p -= T(lr) * delta;
  }
};

}  // namespace

void AdadeltaOptions::check() const {
  require_not_negative(kName, {{"lr", lr}, {"eps", eps}, {"weight_decay", weight_decay}});
  require(rho >= 0 && rho <= 1, kName, "rho in [0, 1]", rho);
}

std::vector<Slot> Adadelta::slots(std::size_t) const { return {{.name = "square_avg"}, {.name = "acc_delta"}}; }

void Adadelta::update(std::size_t group, const Batch& batch) const {
  const AdadeltaOptions& o = options(group);
  apply<0, 1>("adadelta", 14, AdadeltaRule{o.lr, o.rho, 1 - o.rho, o.eps, Direction(o.maximize, o.weight_decay)},
              batch);
}

}  // namespace lockstep::optim
