// Trains a classifier of two interleaved spirals on 1..N GPUs, plots its history, and saves it.
//   train_mlp [--simulate N]
//   mpirun -n P train_mlp --simulate N
#include <lockstep/lockstep.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <vector>

#include "arguments.h"
#include "join.h"

using namespace lockstep;

struct Net : nn::Module<Net> {
  nn::Sequential body{nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 2)};
  auto members() { return nn::members("body", body); }
  Tensor forward(const Tensor& x) { return body(x); }
};

// `count` points, input [count, 2], and the index of each one's spiral, target [count].
data::TensorDataset<2> spirals(int64_t count) {
  const std::vector<float> noise = randn({count, 2}).to_vector<float>();
  std::vector<float> points;
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < count; ++i) {
    const double turn = 3 * std::sqrt(double(i + 1) / double(count)), angle = 2 * turn + (i % 2 ? 3.14159265 : 0);
    points.push_back(float(turn * std::cos(angle)) + 0.08f * noise[size_t(2 * i)]);
    points.push_back(float(turn * std::sin(angle)) + 0.08f * noise[size_t(2 * i + 1)]);
    classes.push_back(i % 2);
  }
  return data::TensorDataset(tensor(points).view({count, 2}), tensor(classes));
}

Tensor accuracy(const Tensor& output, const Tensor& target) { return mean(eq(argmax(output, 1), target).to(kFloat32)); }

int main(int argc, char** argv) {
  try {
    const World world = join();
    const auto simulated = simulated_if_asked(argc, argv);
    manual_seed(1);
    const train::Trainer trainer({.max_epochs = 15, .gradient_clip_val = 1, .parallel = {.world = world}});
    data::DataLoader training(spirals(2000), {.batch_size = 100, .shuffle = true, .seed = 1, .share = trainer.share()});
    data::DataLoader validation(spirals(500), {.batch_size = 100, .seed = 1, .share = trainer.share()});
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::CosineAnnealingLR schedule(optimizer, {.T_max = 15});

    if (world.is_first())
      print("Training on {} device(s), from {} on\n", trainer.devices().size() * size_t(world.size()),
            trainer.devices().front());
    const auto loss = [](auto& model, auto& batch, auto& metrics) {
      auto& [input, target] = batch;
      const Tensor output = model(input);
      metrics.add("accuracy", accuracy(output, target));
      return nn::cross_entropy(output, target);
    };
    const train::History history = trainer.fit(
        net, training, {.loss = loss, .optimizer = optimizer, .schedule = &schedule, .validation = validation});

    if (!world.is_first()) return 0;
    const auto folder = std::filesystem::temp_directory_path();
    save(net.state_dict(), folder / "spirals.safetensors");
    history.write_csv(folder / "spirals.csv");
    history.write_svg(folder / "spirals.svg", {.title = "Two spirals"});
    print("saved the model, {} rows of history and their plot in {}\n", history.rows(), folder.string());
  } catch (const std::exception& error) {
    std::cerr << "train_mlp: " << error.what() << '\n';
    return 1;
  }
}
