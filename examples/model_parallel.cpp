// A model whose parts are on different devices: autograd carries gradients between them.
//   model_parallel [--simulate N]
#include <lockstep/lockstep.h>

#include <iostream>

#include "arguments.h"

using namespace lockstep;

// The first part on one device, the second on another.
struct Halves : nn::Module<Halves> {
  nn::Linear first{8, 32}, second{32, 1};
  auto members() { return nn::members("first", first, "second", second); }

  void place(Device a, Device b) {
    first.to(a);
    second.to(b);
  }
  Tensor forward(const Tensor& x) {
    Tensor hidden = relu(first(x.to(first.weight.device())));
    return second(hidden.to(second.weight.device()));
  }
};

int main(int argc, char** argv) {
  try {
    const auto simulated = simulated_if_asked(argc, argv);
    manual_seed(1);
    const Tensor x = randn({64, 8});
    const Tensor y = sum(x * x, {1}, true) * 0.1;
    const Device places[][2] = {{"cpu", try_gpu(0)}, {try_gpu(0), try_gpu(1)}};
    for (const auto& [a, b] : places) {
      manual_seed(2);
      Halves model;
      model.place(a, b);
      optim::Adam optimizer(model.parameters(), {.lr = 0.01});
      float loss_now = 0;
      for (int step = 0; step < 200; ++step) {
        optimizer.zero_grad();
        Tensor loss = nn::mse_loss(model(x), y.to(b));
        loss.backward();
        optimizer.step();
        if (step == 0 || step == 199) loss_now = loss.item<float>();
        if (step == 0) print("first on {}, second on {}: loss {}", a, b, loss_now);
      }
      print(" -> {}\n", loss_now);
    }
  } catch (const std::exception& error) {
    std::cerr << "model_parallel: " << error.what() << '\n';
    return 1;
  }
}
