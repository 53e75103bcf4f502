#include <lockstep/optim/rmsprop.h>

#include <cmath>

#include <lockstep/optim/rule.h>

namespace lockstep::optim {
namespace {

constexpr std::size_t kSquare = 0, kMomentum = 1, kMean = 2;

struct Coefficients {
  double lr, alpha, take, eps, momentum;  // take = 1 - alpha
  Direction direction;
};

// Divides the gradient by the root of its mean square, or of its variance if a mean is given.
struct Scaled : Coefficients {
  template <class T>
  LOCKSTEP_HD T scaled(T p, T& g, T& square) const {
    g = direction.of(g, p);
    square = T(alpha) * square + T(take) * g * g;
    return g / (std::sqrt(square) + T(eps));
  }
  template <class T>
  LOCKSTEP_HD T scaled(T p, T& g, T& square, T& mean) const {
    g = direction.of(g, p);
    square = T(alpha) * square + T(take) * g * g;
    mean = T(alpha) * mean + T(take) * g;
    return g / (std::sqrt(square - mean * mean) + T(eps));
  }
};

struct RMSPropRule : Scaled {
  template <class T, class... State>
  LOCKSTEP_HD void operator()(T& p, T g, State&... state) const {
    p -= T(lr) * scaled(p, g, state...);
  }
};

struct RMSPropMomentumRule : Scaled {
  template <class T, class... State>
  LOCKSTEP_HD void operator()(T& p, T g, T& buffer, State&... state) const {
    const T moved = T(momentum) * buffer + scaled(p, g, state...);
    buffer = moved;
    p -= T(lr) * moved;
  }
};

}  // namespace

void RMSpropOptions::check() const {
  require_not_negative(
      kName, {{"lr", lr}, {"eps", eps}, {"momentum", momentum}, {"weight_decay", weight_decay}, {"alpha", alpha}});
}

std::vector<Slot> RMSprop::slots(std::size_t group) const {
  const RMSpropOptions& o = options(group);
  return {{.name = "square_avg"},
          {.name = "momentum_buffer", .used = o.momentum > 0},
          {.name = "grad_avg", .used = o.centered}};
}

void RMSprop::update(std::size_t group, const Batch& batch) const {
  const RMSpropOptions& o = options(group);
  const Scaled scaled{{o.lr, o.alpha, 1 - o.alpha, o.eps, o.momentum, Direction(o.maximize, o.weight_decay)}};
  if (o.momentum > 0 && o.centered)
    apply<kMomentum, kSquare, kMean>("rmsprop_centered_momentum", 16, RMSPropMomentumRule{scaled}, batch);
  else if (o.momentum > 0)
    apply<kMomentum, kSquare>("rmsprop_momentum", 11, RMSPropMomentumRule{scaled}, batch);
  else if (o.centered)
    apply<kSquare, kMean>("rmsprop_centered", 14, RMSPropRule{scaled}, batch);
  else
    apply<kSquare>("rmsprop", 9, RMSPropRule{scaled}, batch);
}

}  // namespace lockstep::optim
