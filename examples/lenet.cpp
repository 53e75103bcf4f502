// Trains LeNet-5 on 1..N GPUs to recognize digits: MNIST's in FOLDER, or generated ones.
//   lenet [--data FOLDER] [--epochs N] [--samples N] [--simulate N]
#include "models/lenet.h"

#include <iostream>

#include "image_sets.h"

using namespace lockstep;

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv,
                              {{"--data", "FOLDER"}, {"--epochs", "N"}, {"--samples", "N"}, {"--simulate", "N"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    const ImageSets sets = digits(arguments, 4000);
    data::DataLoader training(sets.training, {.batch_size = 64, .shuffle = true, .seed = 1});
    data::DataLoader test(sets.test, {.batch_size = 250});
    LeNet net;
    optim::Adam optimizer(net.parameters(), {.lr = 2e-3});

    const train::Trainer trainer({.max_epochs = arguments.number("--epochs", 4)});
    print("Training on {} device(s), from {} on\n", trainer.devices().size(), trainer.devices().front());
    const auto loss = [](auto& model, auto& batch, auto& metrics) {
      auto& [images, labels] = batch;
      const Tensor scores = model(images);
      metrics.add("accuracy", accuracy(scores, labels));
      return nn::cross_entropy(scores, labels);
    };
    trainer.fit(net, training, {.loss = loss, .optimizer = optimizer, .validation = test});
  } catch (const std::exception& error) {
    std::cerr << "lenet: " << error.what() << '\n';
    return 1;
  }
}
