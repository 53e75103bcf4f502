// The main job: batches of random data through a model on 1..N GPUs.
//   random_dataset [--devices N] [--simulate N] [--seed S]
//   mpirun -n P random_dataset --simulate N
// --devices uses the first N GPUs (0, the default, uses all); --simulate creates N simulated GPUs, whose timing depends
// on S. With several processes, each uses that many GPUs, and its share of each batch.
#include <lockstep/lockstep.h>

#include <iostream>
#include <numeric>
#include <optional>
#include <string>

#include "arguments.h"
#include "join.h"

using namespace lockstep;

class RandomDataset {
 public:
  RandomDataset(int64_t features, int64_t length) : data_(randn({length, features})) {}
  Tensor get(int64_t index) const { return data_[index]; }
  int64_t size() const { return data_.size(0); }

 private:
  Tensor data_;
};

struct Model : nn::Module<Model> {
  nn::Linear fc;
  Model(int64_t input_size, int64_t output_size) : fc(input_size, output_size) {}
  auto members() { return nn::members("fc", fc); }

  Tensor forward(const Tensor& input) {
    Tensor output = fc(input);
    print("\tIn Model: input size {} output size {}\n", input.sizes(), output.sizes());
    return output;
  }
};

void run(const World& world, int devices) {
  std::vector<int> device_ids(static_cast<size_t>(devices));
  std::iota(device_ids.begin(), device_ids.end(), 0);
  DataParallel model(Model(5, 2), {.device_ids = device_ids, .world = world});
  data::DataLoader loader(RandomDataset(5, 100),
                          {.batch_size = 30, .shuffle = true, .seed = 1, .share = model.share()});
  if (devices > 1) print("Let's use {} GPUs!\n", devices);
  if (world.size() > 1) print("Process {} of {}\n", world.rank().value(), world.size());
  for (const Tensor& data : loader) {
    Tensor input = data.to(model.device());
    Tensor output = model(input);
    print("Outside: input size {} output_size {}\n", input.sizes(), output.sizes());
  }
  synchronize(model.device());  // throws errors that the replicas' devices have not reported yet
}

int main(int argc, char** argv) {
  try {
    const World world = join();
    std::optional<int> devices, simulate;
    uint64_t seed = 0;
    const std::string usage = "usage: random_dataset [--devices N] [--simulate N] [--seed S]";
    for (int i = 1; i < argc; i += 2) {
      const std::string flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
      if (flag == "--devices")
        devices = int(whole_number<unsigned>(value, usage));
      else if (flag == "--simulate")
        simulate = whole_number<int>(value, usage);
      else if (flag == "--seed")
        seed = whole_number<uint64_t>(value, usage);
      else
        throw InvalidArgument(usage);
    }
    std::optional<SimulatedDevices> simulated;
    if (simulate)
      simulated.emplace(SimulationOptions{.count = *simulate, .seed = seed, .max_delay_us = seed ? 200 : 0});
    run(world, devices.value_or(cuda::device_count()));
  } catch (const std::exception& error) {
    std::cerr << "random_dataset: " << error.what() << '\n';
    return 1;
  }
}
