// Trains a variational autoencoder on 1..N GPUs, on MNIST's digits in FOLDER or on generated ones, and prints digits
// that it decodes from noise.
//   vae [--data FOLDER] [--epochs N] [--samples N] [--simulate N]
#include "models/vae.h"

#include <iostream>
#include <string>

#include "image_sets.h"

using namespace lockstep;

constexpr std::int64_t kSide = 28, kPixels = kSide * kSide, kLatent = 8;

// Prints images side by side; a character is two pixels high.
void print_images(const Tensor& images) {
  const auto pixels = images.cpu().to_vector<float>();
  for (std::int64_t y = 0; y < kSide; y += 2) {
    std::string line;
    for (std::int64_t i = 0; i < images.size(0); ++i)
      for (std::int64_t x = 0; x < kSide; ++x) {
        const std::size_t at = std::size_t(i * kPixels + y * kSide + x);
        line += " .:*#"[int((pixels[at] + pixels[at + std::size_t(kSide)]) * 2.49f)];
      }
    print("{}\n", line);
  }
}

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv,
                              {{"--data", "FOLDER"}, {"--epochs", "N"}, {"--samples", "N"}, {"--simulate", "N"}});
    const auto simulated = arguments.simulated();
    manual_seed(1);
    const ImageSets sets = digits(arguments, 2000);
    data::DataLoader training(sets.training, {.batch_size = 64, .shuffle = true, .seed = 1});
    data::DataLoader test(sets.test, {.batch_size = 250});
    Vae net(kPixels, 256, kLatent);
    optim::Adam optimizer(net.parameters(), {.lr = 2e-3});

    const train::Trainer trainer({.max_epochs = arguments.number("--epochs", 6)});
    print("Training on {} device(s), from {} on\n", trainer.devices().size(), trainer.devices().front());
    const auto loss = [](auto& model, auto& batch, auto&) {
      const Tensor images = std::get<0>(batch).flatten(1);
      return vae_loss(model(images, randn({images.size(0), kLatent}).to(images.device())), images);
    };
    trainer.fit(net, training, {.loss = loss, .optimizer = optimizer, .validation = test});

    const NoGrad guard;
    net.eval();
    print_images(sigmoid(net.decode(randn({4, kLatent}).to(net.decoder1.weight.device()))));
  } catch (const std::exception& error) {
    std::cerr << "vae: " << error.what() << '\n';
    return 1;
  }
}
