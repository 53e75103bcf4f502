// A small training job with everything that a checkpoint must hold: momentum, a schedule, a shuffled loader in the
// middle of an epoch, and random numbers drawn at each step.
#pragma once

#include <cstdint>
#include <functional>

#include <lockstep/data/loader.h>
#include <lockstep/data/tensor_dataset.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/loss.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/random.h>
#include <lockstep/train/checkpoint.h>

namespace lockstep::testing {

class NoisyJob {
 public:
  /// Seeds this thread's random sequence.
  explicit NoisyJob(std::uint64_t seed) : net_(seeded_net(seed)) {}

  std::int64_t step() const { return step_; }

  /// Calls after(*this) after each step.
  void run(std::int64_t until, const std::function<void(NoisyJob&)>& after = {}) {
    while (step_ < until)
      for (auto& [input, target] : loader_) {
        optimizer_.zero_grad();
        mse_loss(net_(input + randn(input.sizes()) * 0.1), target).backward();
        optimizer_.step();
        schedule_.step();
        ++step_;
        if (after) after(*this);
        if (step_ == until) break;
      }
  }

  Checkpoint checkpoint() const {
    Checkpoint checkpoint;
    checkpoint.put("model", net_.state_dict());
    checkpoint.put("optimizer", optimizer_.state_dict());
    checkpoint.put("schedule", schedule_.state_dict());
    checkpoint.put("loader", loader_.state());
    checkpoint.put("random", current_generator());
    checkpoint.put("step", step_);
    return checkpoint;
  }

  void resume(const Checkpoint& checkpoint) {
    load_model(net_, checkpoint.tensors("model"));
    optimizer_.load_state_dict(checkpoint.tensors("optimizer"));
    schedule_.load_state_dict(checkpoint.tensors("schedule"));
    loader_.load_state(checkpoint.loader("loader"));
    set_generator(checkpoint.generator("random"));
    step_ = checkpoint.integer("step");
  }

 private:
  static nn::Sequential seeded_net(std::uint64_t seed) {
    manual_seed(seed);
    return nn::Sequential(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  }
  static data::TensorDataset<2> dataset() {
    GeneratorState generator{.seed = 7};
    const GeneratorGuard guard(generator);
    return data::TensorDataset<2>(randn({46, 4}), randn({46, 2}));
  }

  nn::Sequential net_;
  optim::SGD optimizer_{net_.parameters(), {.lr = 0.05, .momentum = 0.9}};
  optim::StepLR schedule_{optimizer_, {.step_size = 7, .gamma = 0.99}};
  data::DataLoader<data::TensorDataset<2>> loader_{dataset(), {.batch_size = 5, .shuffle = true, .seed = 3}};
  std::int64_t step_ = 0;
};

}  // namespace lockstep::testing
