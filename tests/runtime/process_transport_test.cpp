// Messages between processes that are threads of the test: they keep their order, and wake only their receivers.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/distributed/world.h>
#include <lockstep/runtime/simulation.h>

#include "distributed/transport.h"
#include "support/thrown.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::thrown;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLimit = 20s;
constexpr int kChannel = 5;

Transport& transport_of(const World& world) { return *world.transport(); }

int received(Transport& transport, int from, int channel = kChannel) {
  int number = 0;
  transport.receive(from, channel, &number, sizeof number)->wait("a number");
  return number;
}

void send(Transport& transport, int to, int number, int channel = kChannel) {
  transport.send(to, channel, &number, sizeof number)->wait("a number");
}

TEST(SimulatedProcesses, ReceiveInTheOrderInWhichTheyAsk) {
  const std::vector<World> worlds = simulate_processes(2, kLimit);
  Transport &first = transport_of(worlds[0]), &second = transport_of(worlds[1]);
  std::array<int, 4> numbers = {};
  std::vector<PendingMessage> messages;
  const auto ask = [&](int i) {
    messages.push_back(second.receive(0, kChannel, &numbers[std::size_t(i)], sizeof(int)));
  };
  send(first, 1, 10);  // before any receive
  ask(0);
  ask(1);
  ask(2);
  send(first, 1, 11);
  send(first, 1, -1, kChannel + 1);
  send(first, 1, 12);
  send(first, 1, 13);
  ask(3);
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) (*message)->wait("a number");
  EXPECT_EQ(numbers, (std::array{10, 11, 12, 13}));
  EXPECT_EQ(received(second, 0, kChannel + 1), -1);
}

// Each thread waits for another message of the same process; the messages arrive in another order.
TEST(SimulatedProcesses, WakeWhoeverAMessageIsFor) {
  constexpr int kWaiters = 4;
  const std::vector<World> worlds = simulate_processes(2, kLimit);
  const auto begun = Clock::now();
  std::vector<std::thread> waiters;
  std::array<int, kWaiters> got = {};
  for (int i = 0; i < kWaiters; ++i)
    waiters.emplace_back([&, i] { got[std::size_t(i)] = received(transport_of(worlds[1]), 0, kChannel + i); });
  std::this_thread::sleep_for(50ms);  // by then all threads sleep, and the test measures how they wake up
  for (int i = kWaiters - 1; i >= 0; --i) send(transport_of(worlds[0]), 1, 100 + i, kChannel + i);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(got, (std::array{100, 101, 102, 103}));
  EXPECT_LT(Clock::now() - begun, kLimit / 2);
}

TEST(SimulatedProcesses, AllHearOfAFailureAtOnce) {
  const std::vector<World> worlds = simulate_processes(3, kLimit);
  const auto begun = Clock::now();
  std::array<std::string, 3> heard;
  std::vector<std::thread> waiters;
  for (const int process : {0, 1})
    waiters.emplace_back([&, process] {
      heard[std::size_t(process)] =
          thrown<CollectiveError>([&] { received(transport_of(worlds[std::size_t(process)]), 2); });
    });
  std::this_thread::sleep_for(50ms);
  transport_of(worlds[2]).fail("the first reason");
  transport_of(worlds[2]).fail("the second reason");
  for (std::thread& waiter : waiters) waiter.join();
  heard[2] = thrown<CollectiveError>([&] { send(transport_of(worlds[2]), 0, 1); });
  for (const std::string& message : heard) {
    EXPECT_NE(message.find("the first reason"), std::string::npos) << message;
    EXPECT_EQ(message.find("second"), std::string::npos) << message;
  }
  EXPECT_LT(Clock::now() - begun, kLimit / 2);
}

// The first wait that reaches the time limit reports who is late, and all other waits end with that error.
TEST(SimulatedProcesses, WhoIsLateIsNamedToAll) {
  const std::vector<World> worlds = simulate_processes(3, 600ms);
  std::string first, second;
  std::atomic<bool> begins = false;
  std::thread waiter([&] {
    begins = true;
    begins.notify_all();
    first = thrown<CollectiveError>([&] { received(transport_of(worlds[0]), 2); });
  });
  std::thread another([&] {
    begins.wait(false);
    std::this_thread::sleep_for(300ms);
    second = thrown<CollectiveError>([&] { received(transport_of(worlds[1]), 0); });
  });
  waiter.join();
  another.join();
  for (const std::string& message : {first, second})
    EXPECT_NE(message.find("process 2 on simulated-host-2 did not reach a number within 600 ms, process 0 waited"),
              std::string::npos)
        << message;
}

}  // namespace
}  // namespace lockstep
