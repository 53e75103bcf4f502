// Models and comparisons for tests of captured steps.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/dropout.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/module.h>
#include <lockstep/ops/activation.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/optim/sgd.h>

namespace lockstep::train {

struct Net : nn::Module<Net> {
  nn::Linear in{6, 16}, out{16, 3};
  nn::BatchNorm1d norm{16};
  nn::Dropout dropout{0.4};

  auto members() { return nn::members("in", in, "norm", norm, "dropout", dropout, "out", out); }
  Tensor forward(const Tensor& x) { return out(dropout(relu(norm(in(x))))); }
};

struct Bits {
  std::vector<float> values;

  void add(const Tensor& tensor) {
    const std::vector<float> more = tensor.detach().to(Device()).to(kFloat32).flatten().to_vector<float>();
    values.insert(values.end(), more.begin(), more.end());
  }
  void add(const StateDict& dict) {
    for (const auto& [name, tensor] : dict) add(tensor);
  }
  bool operator==(const Bits& other) const {
    return values.size() == other.values.size() &&
           std::memcmp(values.data(), other.values.data(), values.size() * sizeof(float)) == 0;
  }
};

// A model on one GPU, with a training step.
struct Job {
  nn::Linear model{4, 2};
  std::optional<optim::SGD> optimizer;

  Job() {
    model.to(Device::cuda(0));
    optimizer.emplace(model.parameters(), optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  }
  Tensor step(const Tensor& x) {
    optimizer->zero_grad();
    Tensor loss = model(x).square().mean();
    loss.backward();
    optimizer->step();
    return loss;
  }
};

}  // namespace lockstep::train
