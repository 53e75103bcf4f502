// Trains ResNet-18 on 1..N GPUs: on CIFAR-10 in FOLDER, with random crops and flips, or on generated coloured digits.
//   resnet [--data FOLDER] [--epochs N] [--samples N] [--width N] [--simulate N]
#include "models/resnet.h"

#include <iostream>

#include "image_sets.h"

using namespace lockstep;
namespace transforms = lockstep::data::transforms;

template <class Dataset, class Test>
void fit(const Arguments& arguments, const Dataset& images, const Test& tests) {
  data::DataLoader training(images, {.batch_size = 64, .shuffle = true, .seed = 1, .num_workers = 1});
  data::DataLoader test(tests, {.batch_size = 250});
  ResNet18<nn::SyncBatchNorm> net(10, arguments.number("--width", 64));
  optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
  const std::int64_t epochs = arguments.number("--epochs", 3);
  optim::CosineAnnealingLR schedule(optimizer, {.T_max = epochs});

  const train::Trainer trainer({.max_epochs = epochs});
  print("Training on {} device(s), from {} on\n", trainer.devices().size(), trainer.devices().front());
  const auto loss = [](auto& model, auto& batch, auto& metrics) {
    auto& [x, labels] = batch;
    const Tensor scores = model(x);
    metrics.add("accuracy", accuracy(scores, labels));
    return nn::cross_entropy(scores, labels);
  };
  trainer.fit(net, training, {.loss = loss, .optimizer = optimizer, .schedule = &schedule, .validation = test});
}

int main(int argc, char** argv) {
  try {
    const Arguments arguments(
        argc, argv,
        {{"--data", "FOLDER"}, {"--epochs", "N"}, {"--samples", "N"}, {"--width", "N"}, {"--simulate", "N"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    if (arguments.has("--data")) {
      const std::string folder = arguments.text("--data");
      const transforms::Compose varied(transforms::RandomCrop({32, 32}, {.padding = 4}),
                                       transforms::RandomHorizontalFlip());
      fit(arguments, data::MapDataset(dataset_of(data::read_cifar10(folder, data::Part::train)), varied),
          dataset_of(data::read_cifar10(folder, data::Part::test)));
    } else {
      const auto images = dataset_of(coloured_digits(arguments.number("--samples", 1000), 1));
      fit(arguments, images, dataset_of(coloured_digits(500, 2)));
    }
  } catch (const std::exception& error) {
    std::cerr << "resnet: " << error.what() << '\n';
    return 1;
  }
}
