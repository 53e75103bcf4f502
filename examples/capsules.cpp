// Trains a capsule network on 1..N GPUs to recognize digits: MNIST's in FOLDER, or generated ones.
//   capsules [--data FOLDER] [--epochs N] [--samples N] [--simulate N]
#include "models/capsules.h"

#include <iostream>

#include "image_sets.h"

using namespace lockstep;

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv,
                              {{"--data", "FOLDER"}, {"--epochs", "N"}, {"--samples", "N"}, {"--simulate", "N"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    const ImageSets sets = digits(arguments, 1000);
    data::DataLoader training(sets.training, {.batch_size = 64, .shuffle = true, .seed = 1});
    data::DataLoader test(sets.test, {.batch_size = 250});
    CapsuleNet net(28, 16, 4, 10);
    optim::Adam optimizer(net.parameters(), {.lr = 3e-3});

    const train::Trainer trainer({.max_epochs = arguments.number("--epochs", 3)});
    print("Training on {} device(s), from {} on\n", trainer.devices().size(), trainer.devices().front());
    const auto loss = [](auto& model, auto& batch, auto& metrics) {
      auto& [images, labels] = batch;
      const Tensor lengths = model(images);
      metrics.add("accuracy", accuracy(lengths, labels));
      return capsule_loss(lengths, labels);
    };
    trainer.fit(net, training, {.loss = loss, .optimizer = optimizer, .validation = test});
  } catch (const std::exception& error) {
    std::cerr << "capsules: " << error.what() << '\n';
    return 1;
  }
}
