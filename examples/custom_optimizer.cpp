// A custom optimizer, from public headers alone: Lion (Chen et al. 2023, "Symbolic Discovery of Optimization
// Algorithms"), with state in state dicts, on 1..N GPUs.
//   custom_optimizer [--simulate N]
#include <lockstep/extend/optimizer.h>
#include <lockstep/lockstep.h>

#include <array>
#include <iostream>
#include <vector>

#include "arguments.h"

using namespace lockstep;

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;

  static constexpr const char* kName = "Lion";
  void check() const {
    optim::require_not_negative(kName, {{"lr", lr}, {"weight_decay", weight_decay}});
    optim::require_betas(kName, betas);
  }
  auto members() { return lockstep::members("lr", lr, "betas", betas, "weight_decay", weight_decay); }
};

// Updates one element: p -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay p); m = beta2 m + (1 - beta2) g.
struct LionRule {
  double lr, keep1, take1, keep2, take2, weight_decay;

  template <class T>
  LOCKSTEP_HD void operator()(T& p, T g, T& m) const {
    const T direction = T(keep1) * m + T(take1) * g;
    p -= T(lr) * (T(direction > 0) - T(direction < 0) + T(weight_decay) * p);
    m = T(keep2) * m + T(take2) * g;
  }
};

class Lion final : public optim::OptimizerWith<LionOptions> {
 public:
  using OptimizerWith::OptimizerWith;

 private:
  std::vector<optim::Slot> slots(std::size_t) const override { return {{.name = "exp_avg"}}; }
  void update(std::size_t group, const optim::Batch& batch) const override {
    const LionOptions& o = options(group);
    const auto [beta1, beta2] = o.betas;
    optim::apply<0>("lion", 9, LionRule{o.lr, beta1, 1 - beta1, beta2, 1 - beta2, o.weight_decay}, batch);
  }
};

struct Net : nn::Module<Net> {
  nn::Sequential body{nn::Linear(2, 64), nn::Tanh(), nn::Linear(64, 1)};
  auto members() { return nn::members("body", body); }
  Tensor forward(const Tensor& x) { return body(x); }
};

// Trains `steps` steps on one batch and returns the last loss.
double train_on(DataParallel<Net>& model, Lion& optimizer, int steps) {
  manual_seed(2);
  const Tensor input = 2 * rand({512, 2}) - 1;
  const Tensor target = (input.narrow(1, 0, 1) * input.narrow(1, 1, 1)).to(model.device());
  double last = 0;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = nn::mse_loss(model(input), target);
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

int main(int argc, char** argv) {
  try {
    const auto simulated = simulated_if_asked(argc, argv);
    manual_seed(1);
    DataParallel model(Net{});
    Lion optimizer(model.parameters(), {.lr = 1e-3, .weight_decay = 0.01});
    const double first = train_on(model, optimizer, 1), middle = train_on(model, optimizer, 200);
    print("loss {} -> {}\n", first, middle);

    // Another model that loads this state continues bit for bit the same.
    const StateDict state = optimizer.state_dict();
    DataParallel resumed(Net{});
    Lion second(resumed.parameters(), {.lr = 1});
    resumed.load_state_dict(model.state_dict());
    second.load_state_dict(state);
    const double straight = train_on(model, optimizer, 50), again = train_on(resumed, second, 50);
    print("{} keys of state; the resumed run is {}\n", state.size(), straight == again ? "the same" : "ANOTHER");
  } catch (const std::exception& error) {
    std::cerr << "custom_optimizer: " << error.what() << '\n';
    return 1;
  }
}
