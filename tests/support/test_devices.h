// The devices of cuda:* for tests that must pass on every backend. The variable LOCKSTEP_TEST_DEVICES selects them:
//   sim     simulated GPUs; the default
//   cuda    cards, round robin over those that exist
//   shared  devices that share card 0
// If cards are emulated (LOCKSTEP_CUDA=EMULATED), there are as many as a test requests. If no driver responds, every
// test of a program that requires cards is skipped.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <lockstep/runtime/simulation.h>

namespace lockstep {

std::string kind_of_devices();
inline bool are_simulated() { return kind_of_devices() == "sim"; }
/// True if cards are emulated; then they compute thousands of times slower than a GPU.
bool are_emulated();

/// Installs the devices for a scope. Nested scopes hide the outer scope's devices.
class TestDevices {
 public:
  explicit TestDevices(int count);
  ~TestDevices();
  TestDevices(const TestDevices&) = delete;
  TestDevices& operator=(const TestDevices&) = delete;

 private:
  struct Cards;
  std::unique_ptr<SimulatedDevices> simulated_;
  std::unique_ptr<Cards> cards_;
};

}  // namespace lockstep
