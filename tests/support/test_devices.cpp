#include "support/test_devices.h"

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "backends/cuda/cuda_backend.h"
#include "runtime/registry.h"
#ifdef LOCKSTEP_CUDA_EMULATED
#include "cuda/fake/fake_cuda.h"
#endif

namespace lockstep {
namespace {

class NeedsCards : public ::testing::Environment {
 public:
  void SetUp() override {
#ifndef LOCKSTEP_CUDA_EMULATED
    if (are_simulated()) return;
    const CudaCards cards = find_cuda_cards();
    if (cards.count == 0) GTEST_SKIP() << "cuda: NOT RUN: no GPU: " << cards.text << " (" << cards.code << ')';
#endif
  }
};

::testing::Environment* const needs_cards = ::testing::AddGlobalTestEnvironment(new NeedsCards);

}  // namespace

std::string kind_of_devices() {
  const char* const kind = std::getenv("LOCKSTEP_TEST_DEVICES");
  return kind ? kind : "sim";
}

bool are_emulated() {
#ifdef LOCKSTEP_CUDA_EMULATED
  return !are_simulated();
#else
  return false;
#endif
}

// Replaces cuda:* by devices on cards.
struct TestDevices::Cards {
  Cards(const std::string& kind, int count) {
    if (kind != "cuda" && kind != "shared") throw std::invalid_argument("LOCKSTEP_TEST_DEVICES: " + kind);
#ifdef LOCKSTEP_CUDA_EMULATED
    outer_machine = std::exchange(fake::machine(), {});
    fake::machine().cards = kind == "cuda" ? count : 1;
    fake::machine().card_bytes = std::size_t(4) << 30;
#endif
    const int cards = kind == "cuda" ? find_cuda_cards().count : 1;
    CudaOptions options;
    for (int i = 0; i < count; ++i) options.cards.push_back(i % cards);
    outer = exchange_accelerators(std::make_shared<DeviceSet>(make_cuda_backend(options)));
  }
  ~Cards() {
    std::shared_ptr<DeviceSet> devices = exchange_accelerators(std::move(outer));
    EXPECT_TRUE(devices->idle()) << "memory in use at the end of a test";
    if (!devices->idle()) retire(devices);
#ifdef LOCKSTEP_CUDA_EMULATED
    devices.reset();
    EXPECT_EQ(fake::machine().complaint, "");
    fake::machine() = outer_machine;
#endif
  }

  std::shared_ptr<DeviceSet> outer;
#ifdef LOCKSTEP_CUDA_EMULATED
  fake::Machine outer_machine;
#endif
};

TestDevices::TestDevices(int count) {
  if (are_simulated())
    simulated_ = std::make_unique<SimulatedDevices>(SimulationOptions{.count = count});
  else
    cards_ = std::make_unique<Cards>(kind_of_devices(), count);
}

TestDevices::~TestDevices() = default;

}  // namespace lockstep
