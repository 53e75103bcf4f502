// Prints a Markdown table of a training step's launches: their number, and the bytes and floating-point operations that
// they declare. Copies count too. Runs on a simulated GPU, where every launch declares its bytes; the CPU launches the
// same.
//   launches             a row for each model
//   launches MODEL       a row for each operation of its step
#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models.h"

using namespace lockstep;

namespace {

struct Sum {
  long launches = 0;
  double bytes = 0, flops = 0;
  void add(const TraceEvent& event) {
    ++launches;
    bytes += double(event.bytes);
    flops += event.flops;
  }
};

using Sums = std::map<std::string, Sum>;

// Traces the third step, when gradients and the optimizer's state exist.
template <class Model>
Sums sums_of_step() {
  const Device device("cuda:0");
  auto net = Model::net();
  net.to(device);
  bench::Training<Model> training(std::move(net), device);
  for (int i = 0; i < 2; ++i) training.step();
  synchronize(device);
  const Trace trace;
  training.step();
  synchronize(device);
  Sums sums;
  for (const TraceEvent& event : trace.events()) sums[event.name].add(event), sums[""].add(event);
  return sums;
}

void print_row(const std::string& name, const Sum& sum) {
  std::printf("| %s | %ld | %.2f | %.3f |\n", name.c_str(), sum.launches, sum.bytes / 1e6, sum.flops / 1e9);
}

void print_operations(const Sums& sums) {
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  for (const auto& [name, sum] : sorted) print_row(name.empty() ? "all" : "`" + name + "`", sum);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string chosen = argc > 1 ? argv[1] : "";
  bool found = false;
  manual_seed(0);
  const SimulatedDevices devices(
      {.count = 1, .memory_bytes = std::size_t(8) << 30, .poison = false, .check_races = false});
  bench::for_each_model([&]<class Model>(Model) {
    if (!chosen.empty() && chosen != Model::kName) return;
    if (!found)
      std::printf("| %s | launches | MB | GFLOP |\n|---|---|---|---|\n", chosen.empty() ? "step" : "operation");
    found = true;
    const Sums sums = sums_of_step<Model>();
    chosen.empty() ? print_row(std::string("`") + Model::kName + "`", sums.at("")) : print_operations(sums);
    std::fflush(stdout);
  });
  if (found && argc <= 2) return 0;
  std::fprintf(stderr, "usage: launches [seed|mlp|lenet|resnet|gpt|lstm]\n");
  return 2;
}
