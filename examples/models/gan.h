// The two networks of a generative adversarial network (Goodfellow et al. 2014), for points in the plane.
#pragma once

#include <lockstep/lockstep.h>

struct GanGenerator : lockstep::nn::Module<GanGenerator> {
  lockstep::nn::Sequential body;
  GanGenerator(std::int64_t noise, std::int64_t hidden)
      : body{lockstep::nn::Linear(noise, hidden), lockstep::nn::ReLU(), lockstep::nn::Linear(hidden, hidden),
             lockstep::nn::ReLU(), lockstep::nn::Linear(hidden, 2)} {}
  auto members() { return lockstep::nn::members("body", body); }
  lockstep::Tensor forward(const lockstep::Tensor& noise) { return body(noise); }
};

// Outputs the logit that a point is real: [batch].
struct GanDiscriminator : lockstep::nn::Module<GanDiscriminator> {
  lockstep::nn::Sequential body;
  explicit GanDiscriminator(std::int64_t hidden)
      : body{lockstep::nn::Linear(2, hidden), lockstep::nn::LeakyReLU(0.2), lockstep::nn::Linear(hidden, hidden),
             lockstep::nn::LeakyReLU(0.2), lockstep::nn::Linear(hidden, 1)} {}
  auto members() { return lockstep::nn::members("body", body); }
  lockstep::Tensor forward(const lockstep::Tensor& points) { return body(points).squeeze(1); }
};
