// Chapter 4: the same loop on N devices.
#include <lockstep/lockstep.h>
using namespace lockstep;

struct Net : nn::Module<Net> {
  nn::Linear hidden{8, 32};
  nn::Linear output{32, 1};
  bool speaks = false;  // a setting: every replica has it too
  auto members() { return nn::members("hidden", hidden, "output", output, "speaks", speaks); }
  Tensor forward(const Tensor& x) {
    if (speaks) print("  {} rows on {}\n", x.size(0), x.device());
    return output(tanh(hidden(x)));
  }
};

template <class Model>
void train_by_hand(Model& model, Device device, const Tensor& inputs, const Tensor& targets) {
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 50; ++step) {
    optimizer.zero_grad();
    Tensor loss = nn::mse_loss(model(inputs.to(device)), targets.to(device));
    loss.backward();
    optimizer.step();
  }
}

int main() {
  manual_seed(1);
  Tensor inputs = randn({30, 8});
  Tensor targets = sum(inputs, {1}, true);
  Net net;
  Net alone = copy(net);  // starts from the same values

  DataParallel model(std::move(net));  // every visible GPU; the CPU where there is none
  print("{} device(s), the first is {}\n", model.devices().size(), model.device());
  model.module().speaks = true;
  Tensor output = model(inputs);  // scattered, computed, gathered
  print("output {} on {}\n", output.sizes(), output.device());
  model.module().speaks = false;

  train_by_hand(model, model.device(), inputs, targets);
  train_by_hand(alone, "cpu", inputs, targets);

  double most = 0;
  for (const auto& [name, value] : alone.state_dict()) {
    Tensor other = model.module().state_dict().at(name).cpu();
    most = std::max(most, max(abs(value - other)).item<double>());
  }
  print("the parameters are those of training on one CPU: {}\n", most < 1e-4 ? "yes" : "no");
  return most < 1e-4 ? 0 : 1;
}
