// Trains an LSTM on 1..N GPUs to recognize which of four tones a noisy wave contains.
//   lstm [--epochs N] [--simulate N]
#include "models/lstm_classifier.h"

#include <iostream>

#include "arguments.h"

using namespace lockstep;

constexpr std::int64_t kSteps = 40, kTones = 4;

// Waves of unit amplitude and random phase in noise of equal power: [count, kSteps, 1], and the indices of their tones.
data::TensorDataset<2> tones(std::int64_t count) {
  const Tensor tone = randint(0, kTones, {count});
  const Tensor frequency = (tone.to(kFloat32) + 1).unsqueeze(1) * 0.25, phase = 6.2831853 * rand({count, 1});
  const Tensor wave = sin(frequency * arange(double(kSteps), {.dtype = kFloat32}) + phase);
  return data::TensorDataset((wave + 0.7 * randn({count, kSteps})).unsqueeze(2), tone);
}

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv, {{"--epochs", "N"}, {"--simulate", "N"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    data::DataLoader training(tones(2000), {.batch_size = 64, .shuffle = true, .seed = 1});
    data::DataLoader test(tones(500), {.batch_size = 250});
    LstmClassifier net(1, 32, kTones, 2);
    optim::Adam optimizer(net.parameters(), {.lr = 5e-3});

    const train::Trainer trainer({.max_epochs = arguments.number("--epochs", 8), .gradient_clip_val = 1});
    print("Training on {} device(s), from {} on\n", trainer.devices().size(), trainer.devices().front());
    const auto loss = [](auto& model, auto& batch, auto& metrics) {
      auto& [x, tone] = batch;
      const Tensor scores = model(x);
      metrics.add("accuracy", mean(eq(argmax(scores, 1), tone).to(kFloat32)));
      return nn::cross_entropy(scores, tone);
    };
    trainer.fit(net, training, {.loss = loss, .optimizer = optimizer, .validation = test});
  } catch (const std::exception& error) {
    std::cerr << "lstm: " << error.what() << '\n';
    return 1;
  }
}
