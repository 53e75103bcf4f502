// Trains a generator against a discriminator, each with its own optimizer, on 1..N GPUs. The data are points in eight
// clusters on a ring.
//   gan [--steps N] [--simulate N]
#include "models/gan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "arguments.h"

using namespace lockstep;

constexpr std::int64_t kBatch = 256, kNoise = 8;
constexpr double kHeaps = 8, kTurn = 6.283185307179586;

Tensor real_points(std::int64_t count) {
  const Tensor angle = randint(0, std::int64_t(kHeaps), {count}).to(kFloat32) * (kTurn / kHeaps);
  return stack({cos(angle), sin(angle)}, 1) + 0.05 * randn({count, 2});
}

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv, {{"--steps", "N"}, {"--simulate", "N"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    DataParallel generator(GanGenerator(kNoise, 64));
    DataParallel discriminator(GanDiscriminator(64));
    optim::Adam generator_step(generator.parameters(), {.lr = 1e-3, .betas = {0.5, 0.999}});
    optim::Adam discriminator_step(discriminator.parameters(), {.lr = 1e-3, .betas = {0.5, 0.999}});
    const Tensor real = ones({kBatch}, {.device = discriminator.device()}), fake = zeros_like(real);

    const std::int64_t steps = arguments.number("--steps", 1500);
    for (std::int64_t step = 1; step <= steps; ++step) {
      const Tensor made = generator(randn({kBatch, kNoise}));
      discriminator_step.zero_grad();
      const Tensor caught =
          nn::binary_cross_entropy_with_logits(discriminator(real_points(kBatch).to(discriminator.device())), real) +
          nn::binary_cross_entropy_with_logits(discriminator(made.detach()), fake);
      caught.backward();
      discriminator_step.step();

      generator_step.zero_grad();
      const Tensor fooled = nn::binary_cross_entropy_with_logits(discriminator(made), real);
      fooled.backward();
      generator_step.step();
      if (step % 500 == 0 || step == steps)
        print("step {}: discriminator {}, generator {}\n", step, caught.item<double>(), fooled.item<double>());
    }

    const NoGrad guard;
    const auto points = generator(randn({1000, kNoise})).cpu().to_vector<float>();
    std::array<int, std::size_t(kHeaps)> near = {};
    for (std::size_t i = 0; i < points.size(); i += 2) {
      const double angle = std::atan2(points[i + 1], points[i]), heap = std::round(angle / kTurn * kHeaps);
      const double x = std::cos(heap * kTurn / kHeaps), y = std::sin(heap * kTurn / kHeaps);
      if (std::hypot(points[i] - x, points[i + 1] - y) < 0.2) ++near[std::size_t(int(heap + kHeaps) % int(kHeaps))];
    }
    int close = 0, found = 0;
    for (const int count : near) close += count, found += count >= 20;
    print("{} of 1000 points are near a cluster, {} of 8 clusters are found\n", close, found);
  } catch (const std::exception& error) {
    std::cerr << "gan: " << error.what() << '\n';
    return 1;
  }
}
