// Trains a classifier of two interleaved spirals on 1..N GPUs, and saves it.
//   train_mlp [--simulate N]
#include <lockstep/lockstep.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <vector>

using namespace lockstep;

struct Net : nn::Module<Net> {
  nn::Sequential body{nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 2)};
  auto members() { return nn::members("body", body); }
  Tensor forward(const Tensor& x) { return body(x); }
};

// `count` points with their spiral's number: input [count, 2], target [count].
std::pair<Tensor, Tensor> spirals(int64_t count) {
  const std::vector<float> noise = randn({count, 2}).to_vector<float>();
  std::vector<float> points;
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < count; ++i) {
    const double turn = 3 * std::sqrt(double(i + 1) / double(count)), angle = 2 * turn + (i % 2 ? 3.14159265 : 0);
    points.push_back(float(turn * std::cos(angle)) + 0.08f * noise[size_t(2 * i)]);
    points.push_back(float(turn * std::sin(angle)) + 0.08f * noise[size_t(2 * i + 1)]);
    classes.push_back(i % 2);
  }
  return {tensor(points).view({count, 2}), tensor(classes)};
}

int main(int argc, char** argv) {
  try {
    std::optional<SimulatedDevices> simulated;
    if (argc == 3 && std::string_view(argv[1]) == "--simulate")
      simulated.emplace(SimulationOptions{.count = std::atoi(argv[2])});
    manual_seed(1);
    const auto [inputs, targets] = spirals(2000);
    data::DataLoader loader(data::TensorDataset(inputs, targets), {.batch_size = 100, .shuffle = true, .seed = 1});
    DataParallel model(Net{});
    print("Training on {} device(s), from {} on\n", model.devices().size(), model.device());
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::CosineAnnealingLR schedule(optimizer, {.t_max = 30});

    for (int epoch = 1; epoch <= 30; ++epoch) {
      Tensor total = zeros({}, {.device = model.device()});  // read once an epoch: reading waits for the device
      for (auto [input, target] : loader) {
        optimizer.zero_grad();
        Tensor loss = nn::cross_entropy(model(input), target.to(model.device()));
        loss.backward();   // gradients all-reduced in buckets while backward still runs
        optimizer.step();  // every replica takes the same step
        total.add_(loss.detach());
      }
      schedule.step();
      if (epoch % 5 == 0) print("epoch {}: mean loss {}\n", epoch, total.item<float>() / float(loader.size()));
    }

    model.eval();
    const NoGrad guard;
    const Tensor right = eq(argmax(model(inputs), 1), targets.to(model.device()));
    print("accuracy {}\n", mean(right.to(kFloat32)).item<float>());
    const auto file = std::filesystem::temp_directory_path() / "spirals.safetensors";
    save(model.state_dict(), file);
    print("saved {} tensors in {}\n", model.state_dict().size(), file.string());
  } catch (const std::exception& error) {
    std::cerr << "train_mlp: " << error.what() << '\n';
    return 1;
  }
}
