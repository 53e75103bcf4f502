// A policy for the pole on a cart (Barto, Sutton, Anderson 1983): left or right, given the observation.
#pragma once

#include <lockstep/lockstep.h>

struct Policy : lockstep::nn::Module<Policy> {
  lockstep::nn::Linear fc1, fc2;
  explicit Policy(std::int64_t hidden = 64) : fc1(4, hidden), fc2(hidden, 2) {}
  auto members() { return lockstep::nn::members("fc1", fc1, "fc2", fc2); }
  // [batch, 4] -> log-probabilities of both actions [batch, 2]
  lockstep::Tensor forward(const lockstep::Tensor& seen) {
    return lockstep::log_softmax(fc2(lockstep::tanh(fc1(seen))), 1);
  }
};
