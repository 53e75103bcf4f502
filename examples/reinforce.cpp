// Learns to balance a pole on a cart by REINFORCE (Williams 1992), on 1..N GPUs, with several carts in one batch.
//   reinforce [--rounds N] [--simulate N]
#include "models/policy.h"

#include <cmath>
#include <iostream>
#include <vector>

#include "arguments.h"

using namespace lockstep;

// The equations and constants of the classic task: 50 steps per second; an episode ends when the pole leans by 12
// degrees, when the cart is 2.4 m off, or after 200 steps.
struct Cart {
  double x = 0, v = 0, angle = 0, turn = 0;
  bool over = false;

  void step(bool right) {
    const double force = right ? 10 : -10, sine = std::sin(angle), cosine = std::cos(angle);
    const double pull = (force + 0.05 * turn * turn * sine) / 1.1;
    const double turning = (9.8 * sine - cosine * pull) / (0.5 * (4.0 / 3 - 0.1 * cosine * cosine / 1.1));
    const double pushing = pull - 0.05 * turning * cosine / 1.1;
    x += 0.02 * v, v += 0.02 * pushing, angle += 0.02 * turn, turn += 0.02 * turning;
    over = std::abs(x) > 2.4 || std::abs(angle) > 12 * 3.14159265 / 180;
  }
};

constexpr std::int64_t kCarts = 16, kMostSteps = 200;

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv, {{"--rounds", "N"}, {"--simulate", "N"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    DataParallel policy(Policy{});
    optim::Adam optimizer(policy.parameters(), {.lr = 1e-2});
    const std::int64_t rounds = arguments.number("--rounds", 40);
    for (std::int64_t round = 1; round <= rounds; ++round) {
      // Play, and record the observations and actions of each cart that still runs.
      std::vector<float> seen;
      std::vector<int64_t> actions, cart_of;
      std::vector<Cart> carts(kCarts);
      const auto start = (0.1 * rand({kCarts, 4}) - 0.05).to_vector<float>();
      for (std::size_t i = 0; i < carts.size(); ++i)
        carts[i] = {start[4 * i], start[4 * i + 1], start[4 * i + 2], start[4 * i + 3]};
      std::vector<std::int64_t> lengths(kCarts);
      for (std::int64_t t = 0; t < kMostSteps; ++t) {
        std::vector<float> now;
        for (const Cart& cart : carts)
          for (const double number : {cart.x, cart.v, cart.angle, cart.turn}) now.push_back(float(number));
        const NoGrad guard;
        const auto right =
            exp(policy.module()(tensor(now).view({kCarts, 4}).to(policy.device()))).cpu().to_vector<float>();
        const auto chance = rand({kCarts}).to_vector<float>();
        for (std::size_t i = 0; i < carts.size(); ++i) {
          if (carts[i].over) continue;
          const bool goes_right = chance[i] < right[2 * i + 1];
          seen.insert(seen.end(), now.begin() + std::ptrdiff_t(4 * i), now.begin() + std::ptrdiff_t(4 * i + 4));
          actions.push_back(goes_right);
          cart_of.push_back(std::int64_t(i));
          ++lengths[i];
          carts[i].step(goes_right);
        }
      }
      // The discounted return from each step on, normalized.
      std::vector<float> gains(actions.size());
      std::vector<float> later(kCarts);
      for (std::size_t i = actions.size(); i-- > 0;) {
        float& sum = later[std::size_t(cart_of[i])];
        gains[i] = sum = 1 + 0.99f * sum;
      }
      const Tensor gain = tensor(gains), normal = (gain - mean(gain)) / (stddev(gain) + 1e-6);

      optimizer.zero_grad();
      const auto count = std::int64_t(actions.size());
      const Tensor chosen =
          gather_elements(policy(tensor(seen).view({count, 4})), 1, tensor(actions).to(policy.device()).unsqueeze(1));
      mean(-chosen.squeeze(1) * normal.to(policy.device())).backward();
      optimizer.step();
      if (round % 10 == 0 || round == rounds)
        print("round {}: the pole stood for {} steps\n", round, double(count) / double(kCarts));
    }
  } catch (const std::exception& error) {
    std::cerr << "reinforce: " << error.what() << '\n';
    return 1;
  }
}
