#include <lockstep/optim/sgd.h>

#include <cmath>

#include <lockstep/optim/rule.h>

namespace lockstep::optim {
namespace {

constexpr std::size_t kMomentumBuffer = 0;

struct PlainRule {
  double lr;
  Direction direction;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g) const {
    g = direction.of(g, p);
    p -= T(lr) * g;
  }
};

struct MomentumRule {
  double lr;
  double keep, take;  // buffer = keep * buffer + take * g
  double nesterov;    // the momentum, or 0 for none
  Direction direction;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& buffer) const {
    g = direction.of(g, p);
    const T momentum = T(keep) * buffer + T(take) * g;
    buffer = momentum;
    p -= T(lr) * (nesterov != 0 ? g + T(nesterov) * momentum : momentum);
  }
};

}  // namespace

void SGDOptions::check() const {
  require_not_negative(kName, {{"lr", lr}, {"momentum", momentum}, {"weight_decay", weight_decay}});
  require(std::isfinite(dampening), kName, "a finite dampening", dampening);
  if (!nesterov) return;
  require(momentum > 0, kName, "momentum > 0 with nesterov", momentum);
  require(dampening == 0, kName, "dampening == 0 with nesterov", dampening);
}

std::vector<Slot> SGD::slots(std::size_t group) const {
  return {{.name = "momentum_buffer", .used = options(group).momentum != 0}};
}

void SGD::update(std::size_t group, const Batch& batch) const {
  const SGDOptions& o = options(group);
  const Direction direction(o.maximize, o.weight_decay);
  if (o.momentum == 0) return apply<>("sgd", 4, PlainRule{o.lr, direction}, batch);
  // The buffer starts as the first gradient, without dampening.
  const double take = batch.is_new_slot(kMomentumBuffer) ? 1 : 1 - o.dampening;
  apply<kMomentumBuffer>("sgd_momentum", 8,
                         MomentumRule{o.lr, o.momentum, take, o.nesterov ? o.momentum : 0, direction}, batch);
}

}  // namespace lockstep::optim
