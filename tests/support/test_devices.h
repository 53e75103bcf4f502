// Devices behind cuda:* for tests that hold on every backend. The environment's LOCKSTEP_TEST_DEVICES says which:
//   sim     simulated GPUs; the default
//   cuda    cards, as many as there are, in turn
//   shared  devices that share card 0
// Where cards are emulated (LOCKSTEP_CUDA=EMULATED) there are as many as a test wants.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/runtime/simulation.h>

#include "runtime/cuda/cuda_backend.h"
#include "runtime/registry.h"
#ifdef LOCKSTEP_CUDA_EMULATED
#include "cuda/fake/fake_cuda.h"
#endif

namespace lockstep {

inline std::string kind_of_devices() {
  const char* const kind = std::getenv("LOCKSTEP_TEST_DEVICES");
  return kind ? kind : "sim";
}
inline bool are_simulated() { return kind_of_devices() == "sim"; }

/// For a scope. Nested scopes hide the outer one's devices.
class TestDevices {
 public:
  explicit TestDevices(int count) {
    if (are_simulated()) {
      simulated_.emplace(SimulationOptions{.count = count});
      return;
    }
    const std::string kind = kind_of_devices();
    if (kind != "cuda" && kind != "shared") throw std::invalid_argument("LOCKSTEP_TEST_DEVICES: " + kind);
#ifdef LOCKSTEP_CUDA_EMULATED
    outer_machine_ = std::exchange(fake::machine(), {});
    fake::machine().cards = kind == "cuda" ? count : 1;
    fake::machine().card_bytes = std::size_t(4) << 30;
#endif
    const int cards = kind == "cuda" ? find_cuda_cards().count : 1;
    CudaOptions options;
    for (int i = 0; i < count; ++i) options.cards.push_back(i % cards);
    outer_ = exchange_accelerators(std::make_shared<DeviceSet>(make_cuda_backend(options)));
  }
  ~TestDevices() {
    if (simulated_) return;
    std::shared_ptr<DeviceSet> devices = exchange_accelerators(std::move(outer_));
    EXPECT_TRUE(devices->idle()) << "memory in use at the end of a test";
    if (!devices->idle()) retire(devices);
#ifdef LOCKSTEP_CUDA_EMULATED
    devices.reset();
    EXPECT_EQ(fake::machine().complaint, "");
    fake::machine() = outer_machine_;
#endif
  }
  TestDevices(const TestDevices&) = delete;
  TestDevices& operator=(const TestDevices&) = delete;

 private:
  std::optional<SimulatedDevices> simulated_;
  std::shared_ptr<DeviceSet> outer_;
#ifdef LOCKSTEP_CUDA_EMULATED
  fake::Machine outer_machine_;
#endif
};

/// Skips every test of a program that is asked for cards where no driver answers.
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

inline ::testing::Environment* const needs_cards = ::testing::AddGlobalTestEnvironment(new NeedsCards);

}  // namespace lockstep
