// A generator and a critic in one model, whose input includes its own outputs: the gradients of such a loss.
#pragma once

#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/layers.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

namespace lockstep::testing {

struct Adversaries : nn::Module<Adversaries> {
  enum class Part { generator, critic };

  nn::Linear makes{2, 3}, hidden{3, 4}, score{4, 1};
  auto members() { return nn::members("makes", makes, "hidden", hidden, "score", score); }
  Tensor forward(const Tensor& x, Part part) {
    return part == Part::generator ? sigmoid(makes(x)) : score(tanh(hidden(x)));
  }
};

/// The gradients of all parameters. Process 0 has the first `first` of six rows and the last process the others; each
/// computes the mean over its rows.
inline std::vector<double> adversarial_gradients(const World& world, const DeviceIds& devices, std::int64_t first) {
  using Part = Adversaries::Part;
  GeneratorState numbers = {.seed = 5};
  const GeneratorGuard guard(numbers);
  DataParallel model(
      [] {
        Adversaries net;
        net.to(kFloat64);
        return net;
      }(),
      {.device_ids = devices, .world = world});
  const Tensor noise = randn({6, 2}, kFloat64), real = randn({6, 3}, kFloat64);
  const std::int64_t begin = world.is_first() ? 0 : first, end = world.size() == 1 || begin > 0 ? 6 : first;
  const auto mine = [&](const Tensor& rows) { return rows.narrow(0, begin, end - begin).to(model.device()); };

  // The gradient penalty of WGAN-GP: a gradient of a gradient.
  const Tensor between = mine(real).clone().requires_grad_();
  const Tensor slope = gradients({sum(model(between, Part::critic))}, {between}, {}, {.create_graph = true})[0];
  const Tensor penalty = mean(square(sum(square(slope), 1) - 1.));
  // The model's own output is judged by the model and used in the loss directly.
  const Tensor made = model(mine(noise), Part::generator);
  const Tensor loss = mean(model(made, Part::critic)) + mean(square(made)) + penalty;
  loss.backward();

  std::vector<double> all;
  for (const Tensor& p : model.parameters())
    for (const double v : p.grad().to_vector<double>()) all.push_back(v);
  return all;
}

}  // namespace lockstep::testing
