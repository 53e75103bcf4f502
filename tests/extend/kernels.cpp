#include "extend/kernels.h"

#include <cmath>

#include <lockstep/extend/op.h>
#include <lockstep/extend/optimizer.h>

namespace lockstep::testing {
namespace {

struct Swiglu {
  template <class T>
  LOCKSTEP_HD T operator()(T x, T gate, T beta) const {
    return x * sigmoid(beta * x) * gate;
  }
  template <class T>
  LOCKSTEP_HD std::array<T, 3> gradient(const T& g, const T& x, const T& gate, const T& beta) const {
    const T s = sigmoid(beta * x);
    const T slope = g * gate * x * s * (1 - s);
    return {g * gate * s + beta * slope, g * x * s, x * slope};
  }
};

struct Twice {
  template <class T>
  LOCKSTEP_HD T operator()(T x) const {
    return 2 * x;
  }
};
struct Plus {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return a + b;
  }
};
struct SumAndDifference {
  template <class T>
  LOCKSTEP_HD void operator()(T& sum, T& difference, T a, T b) const {
    sum = a + b;
    difference = a - b;
  }
};

struct RmsNorm {
  template <class Team, class T>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> y, RowOf<const T> x) const {
    using C = ComputeType<T>;
    const C squares = sum_over(team, x.length, [&](std::int64_t i) { return C(x[i]) * C(x[i]); });
    const C scale = 1 / std::sqrt(squares / C(x.length) + C(1e-6));
    team.each(x.length, [&](std::int64_t i) { y[i] = T(C(x[i]) * scale); });
  }
};
struct Dot {
  template <class Team, class T>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> out, RowOf<const T> x, RowOf<const T> y) const {
    using C = ComputeType<T>;
    const C sum = sum_over(team, x.length, [&](std::int64_t i) { return C(x[i]) * C(y[i]); });
    team.each(out.length, [&](std::int64_t i) { out[i] = T(sum); });
  }
};

struct LionRule {
  double lr, keep1, take1, keep2, take2, weight_decay;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& m) const {
    const T direction = T(keep1) * m + T(take1) * g;
    p -= T(lr) * (T(direction > 0) - T(direction < 0) + T(weight_decay) * p);
    m = T(keep2) * m + T(take2) * g;
  }
};

struct WrongOptions {
  double lr = 1;
  static constexpr const char* kName = "Wrong";
  void check() const {}
  auto members() { return lockstep::members("lr", lr); }
};

struct Greedy final : optim::OptimizerWith<WrongOptions> {
  using OptimizerWith::OptimizerWith;
  std::vector<optim::Slot> slots(std::size_t) const override {
    return {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
  }
  void update(std::size_t, const optim::Batch&) const override {}
};

struct Careless final : optim::OptimizerWith<WrongOptions> {
  using OptimizerWith::OptimizerWith;
  std::vector<optim::Slot> slots(std::size_t) const override { return {{.name = "a"}}; }
  void update(std::size_t, const optim::Batch& batch) const override {
    optim::apply<1>("careless", 1, LionRule{}, batch);
  }
};

}  // namespace

Tensor swiglu(const Tensor& x, const Tensor& gate, const Tensor& beta) {
  return extend::elementwise("swiglu", Swiglu(), x, gate, beta);
}
Tensor twice(const Tensor& x) { return extend::map("twice", Twice(), x); }
Tensor plus(const Tensor& a, const Tensor& b) { return extend::map("plus", Plus(), a, b); }
std::array<Tensor, 2> sum_and_difference(const Tensor& a, const Tensor& b) {
  return extend::map_several<2>("sum_and_difference", SumAndDifference(), a, b);
}
Tensor rms_norm_rows(const Tensor& x, std::int64_t dim) {
  return extend::map_rows("rms_norm_rows", RmsNorm(), {.dim = dim}, x);
}
Tensor dot_rows(const Tensor& x, const Tensor& y, std::int64_t length) {
  return extend::map_rows("dot_rows", Dot(), {.length = length}, x, y);
}

void LionOptions::check() const {
  optim::require_not_negative(kName, {{"lr", lr}, {"weight_decay", weight_decay}});
  optim::require_betas(kName, betas);
}

void Lion::update(std::size_t group, const optim::Batch& batch) const {
  const LionOptions& o = options(group);
  const auto [beta1, beta2] = o.betas;
  optim::apply<0>("lion", 9, LionRule{o.lr, beta1, 1 - beta1, beta2, 1 - beta2, o.weight_decay}, batch);
}

std::unique_ptr<optim::Optimizer> greedy_optimizer(const Tensor& parameter) {
  return std::make_unique<Greedy>(std::vector{parameter});
}
std::unique_ptr<optim::Optimizer> careless_optimizer(const Tensor& parameter) {
  return std::make_unique<Careless>(std::vector{parameter});
}

}  // namespace lockstep::testing
