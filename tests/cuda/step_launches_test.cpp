// A training step of each benchmark model, compared with a recorded table: the grids, cuBLASLt products, cuDNN
// convolutions and copies that it enqueues, counted on an emulated card that runs none of them; and the bytes that its
// operations declare, counted on a simulated GPU. scripts/step-launches --record writes the table anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <lockstep/lockstep.h>

#include "cuda/emulation/emulator.h"
#include "cuda/fake_devices.h"
#include "models.h"

namespace lockstep {
namespace {

struct Asked {
  long grids = 0, products = 0, convolutions = 0, copies = 0;
  double megabytes = 0;

  std::string text() const {
    std::ostringstream line;
    line.precision(2);
    line << grids << ' ' << products << ' ' << convolutions << ' ' << copies << ' ' << std::fixed << megabytes;
    return line.str();
  }
};

// Runs three steps, and counts the third: by then gradients and optimizer state exist.
template <class Model, class Before>
void third_step(const Before& before) {
  const Device device("cuda:0");
  manual_seed(0);
  auto net = Model::net();
  net.to(device);
  bench::Training<Model> training(std::move(net), device);
  for (int i = 0; i < 2; ++i) training.step();
  synchronize(device);
  before();
  training.step();
  synchronize(device);
}

template <class Model>
void count_on_card(Asked& asked) {
  const emulation::Settings outer = emulation::settings();
  {
    const FakeDevices devices({.cards = {0}}, 1, true, std::size_t(1) << 40);
    machine().address_only = true;
    emulation::settings().record_only = true;
    emulation::settings().max_blocks = 1 << 14;
    third_step<Model>([] {
      emulation::settings().launches.clear();
      machine().products = machine().convolutions = machine().copies = 0;
    });
    asked.grids = long(emulation::settings().launches.size());
    asked.products = machine().products;
    asked.convolutions = machine().convolutions;
    asked.copies = machine().copies;
  }
  emulation::settings() = outer;
}

template <class Model>
void count_bytes(Asked& asked) {
  const SimulatedDevices devices(
      {.count = 1, .memory_bytes = std::size_t(8) << 30, .poison = false, .check_races = false});
  std::optional<Trace> trace;
  third_step<Model>([&] { trace.emplace(); });
  for (const TraceEvent& event : trace->events()) asked.megabytes += double(event.bytes) / 1e6;
}

std::string now() {
  std::ostringstream table;
  table << "# model: grids, products, convolutions, copies, megabytes of a training step on a card.\n"
        << "# Written by scripts/step-launches --record.\n";
  bench::for_each_counted_model([&]<class Model>(Model) {
    Asked asked;
    count_on_card<Model>(asked);
    count_bytes<Model>(asked);
    table << Model::kName << ": " << asked.text() << '\n';
  });
  return table.str();
}

TEST(StepLaunches, AreThoseOfTheTable) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "counts are the same with sanitizers, and take minutes";
#endif
  const std::string counted = now();
  if (std::getenv("LOCKSTEP_RECORD")) {
    std::ofstream(LOCKSTEP_STEP_LAUNCHES) << counted;
    return;
  }
  std::ifstream file(LOCKSTEP_STEP_LAUNCHES);
  std::ostringstream recorded;
  recorded << file.rdbuf();
  EXPECT_EQ(counted, recorded.str()) << "if this is meant, record it: scripts/step-launches --record";
}

}  // namespace
}  // namespace lockstep
