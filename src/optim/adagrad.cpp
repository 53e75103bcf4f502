#include <lockstep/optim/adagrad.h>

#include <cmath>

#include <lockstep/optim/rule.h>

namespace lockstep::optim {
namespace {

struct AdagradRule {
  double lr;  // the rate of this step, with lr_decay
  double eps;
  Direction direction;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& sum) const {
    g = direction.of(g, p);
    const T squares = sum + g * g;
    sum = squares;
    p -= T(lr) * g / (std::sqrt(squares) + T(eps));
  }
};

}  // namespace

void AdagradOptions::check() const {
  require_not_negative(kName, {{"lr", lr},
                               {"lr_decay", lr_decay},
                               {"weight_decay", weight_decay},
                               {"initial_accumulator_value", initial_accumulator_value},
                               {"eps", eps}});
}

std::vector<Slot> Adagrad::slots(std::size_t group) const {
  return {{.name = "sum", .initial = options(group).initial_accumulator_value}};
}

void Adagrad::update(std::size_t group, const Batch& batch) const {
  const AdagradOptions& o = options(group);
  const double lr = o.lr / (1 + (batch.step - 1) * o.lr_decay);
  apply<0>("adagrad", 8, AdagradRule{lr, o.eps, Direction(o.maximize, o.weight_decay)}, batch);
}

}  // namespace lockstep::optim
