// Several processes on one machine: a training step, and all-reduces compared with MPI_Allreduce.
//   mpirun -n P processes step|levels|sums [--simulate N]
// step: the MLP of the benchmark of PyTorch's DistributedDataParallel over gloo: 784-512-256-10, 256 rows in all, SGD
// with momentum. levels: the same with AdamW at each level of sharding, steps of all levels in turn. sums: all-reduces
// of float32, and MPI_Allreduce of the same bytes, alternately. Process 0 prints one JSON object per line: name, med_us
// (for sums also peer_us, for levels over_none).
#include <lockstep/distributed/mpi.h>
#include <lockstep/lockstep.h>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"

using namespace lockstep;

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ptrdiff_t(values.size() / 2));
  return values[values.size() / 2];
}

template <class Function>
double time_us(const World& world, Function function) {
  world.barrier();
  const auto start = Clock::now();
  function();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Mlp : nn::Module<Mlp> {
  nn::Sequential body{nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 256), nn::ReLU(), nn::Linear(256, 10)};
  auto members() { return nn::members("body", body); }
  Tensor forward(const Tensor& x) { return body(x); }
};

template <class Optimizer>
class Training {
 public:
  template <class Options>
  Training(const World& world, Shard shard, const Options& options)
      : model_(Mlp(), {.shard = shard, .world = world}), optimizer_(model_.parameters(), options) {
    const std::int64_t rows = 256 / world.size();
    x_ = randn({rows, 784}).to(model_.device());
    y_ = randint(0, 10, {rows}).to(model_.device());
  }

  void step() {
    optimizer_.zero_grad();
    nn::cross_entropy(model_(x_), y_).backward();
    optimizer_.step();
    for (const Device& device : model_.devices()) synchronize(device);
  }

 private:
  DataParallel<Mlp> model_;
  Optimizer optimizer_;
  Tensor x_, y_;
};

void steps(const World& world) {
  Training<optim::SGD> training(world, Shard::none, optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  std::vector<double> times;
  for (int i = 0; i < 303; ++i) {
    const double us = time_us(world, [&] { training.step(); });
    if (i >= 3) times.push_back(us);
  }
  if (world.is_first())
    std::printf("{\"name\": \"mlp/processes%d/step\", \"med_us\": %.1f}\n", world.size(), median(times));
}

void levels(const World& world) {
  constexpr std::array kLevels = {Shard::none, Shard::optimizer_state, Shard::gradients, Shard::hybrid,
                                  Shard::parameters};
  std::deque<Training<optim::AdamW>> trainings;
  for (const Shard level : kLevels) trainings.emplace_back(world, level, optim::AdamWOptions{.lr = 1e-3});
  std::vector<std::vector<double>> times(kLevels.size());
  for (int i = 0; i < 103; ++i)
    for (std::size_t level = 0; level < kLevels.size(); ++level) {
      const double us = time_us(world, [&] { trainings[level].step(); });
      if (i >= 3) times[level].push_back(us);
    }
  for (std::size_t level = 0; level < kLevels.size() && world.is_first(); ++level)
    std::cout << "{\"name\": \"mlp/processes" << world.size() << '/' << kLevels[level]
              << "\", \"med_us\": " << median(times[level])
              << ", \"over_none\": " << median(times[level]) / median(times[0]) << "}\n";
}

void sums(const World& world) {
  const Device device = try_all_gpus().front();
  Communicator communicator({device}, world);
  for (const std::int64_t bytes : {std::int64_t(4) << 10, std::int64_t(256) << 10, std::int64_t(25) << 20}) {
    const Tensor x = ones({bytes / 4}, {.device = device});
    std::vector<float> host(std::size_t(bytes / 4), 1.0f), sum(host.size());
    std::vector<double> ours, peers;
    for (int i = 0; i < 43; ++i) {
      const double own = time_us(world, [&] {
        collective::all_reduce(communicator, std::span(&x, 1));
        synchronize(device);
      });
      const double peer = time_us(
          world, [&] { MPI_Allreduce(host.data(), sum.data(), int(host.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
      if (i >= 3) ours.push_back(own), peers.push_back(peer);
    }
    if (world.is_first())
      std::printf("{\"name\": \"sum/%lld bytes/processes%d\", \"med_us\": %.1f, \"peer_us\": %.1f}\n",
                  static_cast<long long>(bytes), world.size(), median(ours), median(peers));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const World world = mpi::join();
    if (argc < 2) throw InvalidArgument("usage: mpirun -n P processes step|levels|sums [--simulate N]");
    const auto simulated = simulated_if_asked(argc - 1, argv + 1);
    const std::string chosen = argv[1];
    chosen == "sums" ? sums(world) : chosen == "levels" ? levels(world) : steps(world);
  } catch (const std::exception& error) {
    std::cerr << "processes: " << error.what() << '\n';
    return 1;
  }
}
