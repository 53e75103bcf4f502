// Devices behind cuda:* for tests that hold on every backend. The environment's LOCKSTEP_TEST_DEVICES says which:
//   sim     simulated GPUs; the default
//   cuda    cards, as many as there are, in turn
//   shared  devices that share card 0
// Where cards are emulated (LOCKSTEP_CUDA=EMULATED) there are as many as a test wants. Where no driver answers, every
// test of a program that is asked for cards is skipped.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <lockstep/runtime/simulation.h>

namespace lockstep {

std::string kind_of_devices();
inline bool are_simulated() { return kind_of_devices() == "sim"; }
/// Whether cards are emulated, which compute thousands of times slower than a GPU.
bool are_emulated();

/// For a scope. Nested scopes hide the outer one's devices.
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
