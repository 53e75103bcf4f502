// Prints a Markdown table of a training step's launches: their number, and the bytes and floating-point operations that
// they declare. Copies count too. Runs on a simulated GPU, where every launch declares its bytes; the CPU launches the
// same.
//   launches             a row for each model
//   launches MODEL       a row for each operation of its step
//   launches gpt2        rows for each size of GPT-2: of one text of 1024 tokens a layer, all that is no layer, and the
//                        step; and the step with the texts of `workloads gpt2`
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
  double launches = 0, bytes = 0, flops = 0;
  void add(const TraceEvent& event) { *this = *this + Sum{1, double(event.bytes), event.flops}; }
  friend Sum operator+(const Sum& a, const Sum& b) {
    return {a.launches + b.launches, a.bytes + b.bytes, a.flops + b.flops};
  }
  friend Sum operator*(double factor, const Sum& a) {
    return {factor * a.launches, factor * a.bytes, factor * a.flops};
  }
};

// Of each operation in each phase; those of "" are the sums over all operations or phases.
using Sums = std::map<std::pair<std::string, std::string>, Sum>;

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
  Sums sums;
  std::size_t counted = 0;
  training.step([&](const std::string& phase) {
    synchronize(device);
    const auto events = trace.events();
    for (; counted < events.size(); ++counted)
      for (const std::string& of_phase : {phase, std::string()})
        for (const std::string& name : {std::string(events[counted].name), std::string()})
          sums[{of_phase, name}].add(events[counted]);
  });
  return sums;
}

void print_row(const std::string& name, const Sum& sum) {
  std::printf("| %s | %.0f | %.2f | %.3f |\n", name.c_str(), sum.launches, sum.bytes / 1e6, sum.flops / 1e9);
}

void print_operations(const Sums& sums) {
  std::vector<std::pair<std::string, Sum>> sorted;
  for (const auto& [key, sum] : sums)
    sorted.emplace_back((key.first.empty() ? "" : key.first + ": ") + (key.second.empty() ? "all" : key.second), sum);
  std::ranges::sort(sorted, [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  for (const auto& [name, sum] : sorted) print_row(name, sum);
}

// The step of a model of many layers, from those of its models with one and with two.
struct Layers {
  Sum layer, rest;
  Sum step(int layers) const { return rest + layers * layer; }
};
template <int texts, std::int64_t width, std::int64_t heads, template <class> class In>
std::map<std::string, Layers> layers_of_step() {  // by phase
  const Sums one = sums_of_step<In<bench::Gpt2Of<texts, width, heads, 1>>>(),
             two = sums_of_step<In<bench::Gpt2Of<texts, width, heads, 2>>>();
  std::map<std::string, Layers> phases;
  for (const char* const phase : {"forward", "backward", "update", ""}) {
    const Sum layer = two.at({phase, ""}) + -1 * one.at({phase, ""});
    phases[phase] = {layer, one.at({phase, ""}) + -1 * layer};
  }
  return phases;
}

// A step with one text, and with as many as `workloads gpt2` has: each adds as much as the second.
template <std::int64_t width, std::int64_t heads, int layers, template <class> class In>
void print_gpt2(const std::string& name, int texts) {
  const auto one = layers_of_step<1, width, heads, In>(), two = layers_of_step<2, width, heads, In>();
  for (const char* const phase : {"forward", "backward", "update", ""}) {
    const Layers& of_one = one.at(phase);
    const std::string of = name + (*phase ? std::string(", ") + phase : ", step");
    print_row(of + ": a layer", of_one.layer);
    print_row(of + ": without layers", of_one.rest);
    print_row(of + ": " + std::to_string(layers) + " layers", of_one.step(layers));
    print_row(of + ": " + std::to_string(texts) + " texts",
              (2 - texts) * of_one.step(layers) + (texts - 1) * two.at(phase).step(layers));
  }
  std::fflush(stdout);
}
template <class Model>
using InFloat32 = Model;
template <std::int64_t width, std::int64_t heads, int layers>
void print_gpt2(const std::string& size, int texts) {
  print_gpt2<width, heads, layers, InFloat32>(size + " float32", texts);
  print_gpt2<width, heads, layers, bench::InBFloat16>(size + " bfloat16", texts);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string chosen = argc > 1 ? argv[1] : "";
  bool found = false;
  manual_seed(0);
  const SimulatedDevices devices(
      {.count = 1, .memory_bytes = std::size_t(12) << 30, .poison = false, .check_races = false});
  const auto print_head = [&](const char* first) {
    if (!found) std::printf("| %s | launches | MB | GFLOP |\n|---|---|---|---|\n", first);
    found = true;
  };
  bench::for_each_counted_model([&]<class Model>(Model) {
    if (!chosen.empty() && chosen != Model::kName) return;
    print_head(chosen.empty() ? "step" : "operation");
    const Sums sums = sums_of_step<Model>();
    chosen.empty() ? print_row(std::string("`") + Model::kName + "`", sums.at({"", ""})) : print_operations(sums);
    std::fflush(stdout);
  });
  if (chosen == "gpt2") {
    print_head("GPT-2");
    const std::string size = argc > 2 ? argv[2] : "";
    if (size.empty() || size == "124M") print_gpt2<768, 12, 12>("124M", 8);
    if (size.empty() || size == "350M") print_gpt2<1024, 16, 24>("350M", 8);
    if (size.empty() || size == "774M") print_gpt2<1280, 20, 36>("774M", 4);
    if (size.empty() || size == "1.5B") print_gpt2<1600, 25, 48>("1.5B", 2);
    return 0;
  }
  if (found && argc <= 2) return 0;
  std::fprintf(stderr,
               "usage: launches [seed|mlp|lenet|resnet|gpt|lstm|gpt_bfloat16]\n"
               "       launches gpt2 [124M|350M|774M|1.5B]\n");
  return 2;
}
