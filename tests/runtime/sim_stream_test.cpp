// Simulated streams run work asynchronously and in order; only events order work across streams.
#include <lockstep/core/error.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "runtime/sim_fixture.h"
#include "support/no_more_threads.h"

namespace lockstep::sim {
namespace {

using Floats = std::vector<float>;

TEST(SimStream, LaunchReturnsBeforeItsKernelHasRun) {
  Simulation sim;
  std::promise<void> gate = sim.block(sim.stream());
  EXPECT_FALSE(sim.backend.query_stream(sim.stream()));
  gate.set_value();
  sim.backend.synchronize_stream(sim.stream());
  EXPECT_TRUE(sim.backend.query_stream(sim.stream()));
}

TEST(SimStream, RunsItsWorkInOrder) {
  Simulation sim;
  std::vector<int> order;
  for (int i = 0; i < 100; ++i)
    sim.launch(sim.stream(), "note", {}, [&, i](const KernelContext&) { order.push_back(i); });
  sim.backend.synchronize_stream(sim.stream());
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

// Like a launch queue and a driver's buffers: a program that runs ahead of its devices must not fill the host's memory.
TEST(SimStream, TakesNoMoreAheadThanItsBounds) {
  Simulation sim;
  std::promise<void> gate = sim.block(sim.stream());
  const Floats values(SimStream::kMaxStagedBytes / 4 / sizeof(float), 7);
  float* const data = sim.allocate(0, values.size());
  std::atomic<int> sent = 0;
  std::thread ahead([&] {
    for (; sent < 5; ++sent) sim.send(sim.stream(), data, values);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(sent, 4);
  gate.set_value();
  ahead.join();
  EXPECT_EQ(sim.receive(sim.stream(), data, 1), Floats{7});

  gate = sim.block(sim.stream());
  sent = 0;
  std::thread launching([&] {
    for (; sent < int(SimStream::kMaxTasks) + 10; ++sent) sim.launch(sim.stream(), "note", {}, [](auto&) {});
  });
  while (sent < int(SimStream::kMaxTasks) - 10) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(sent, int(SimStream::kMaxTasks));
  gate.set_value();
  launching.join();
}

#if defined(__GLIBC__)
// Creating the stream must fail, not its first task: the discard of an allocation must not throw.
TEST(SimStream, AStreamForWhichThereIsNoThreadIsRefused) {
  Simulation sim;
  {
    const testing::NoMoreThreads none;
    const std::string message =
        message_of<BackendError>([&] { sim.backend.create_stream(1, 0, StreamPriority::normal); });
    EXPECT_TRUE(contains(message, "[start_thread] failed on cuda:1 with code 11: ")) << message;
  }
  float* const data = sim.allocate(1, 1);
  sim.send(sim.stream(1), data, {3});
  EXPECT_EQ(sim.receive(sim.stream(1), data, 1), Floats{3});
}
#endif

TEST(SimStream, StreamsOfOneDeviceRunIndependently) {
  Simulation sim;
  std::promise<void> gate = sim.block(sim.stream(0, 0));
  float* const data = sim.allocate(0, 1);
  sim.fill(sim.stream(0, 1), data, 1, 5);
  EXPECT_EQ(sim.receive(sim.stream(0, 1), data, 1), Floats{5});
  gate.set_value();
}

TEST(SimStream, WorkAfterAWaitRunsAfterTheEvent) {
  Simulation sim;
  float* const data = sim.allocate(0, 4);
  const StreamHandle producer = sim.stream(0, 0), consumer = sim.stream(0, 1);
  std::promise<void> gate = sim.block(producer);
  sim.fill(producer, data, 4, 1);
  order(sim, producer, consumer);
  sim.add(consumer, data, 4, 2);
  EXPECT_FALSE(sim.backend.query_stream(consumer));
  gate.set_value();
  EXPECT_EQ(sim.receive(consumer, data, 4), Floats(4, 3));
}

TEST(SimStream, AnEventThatWasNeverRecordedIsComplete) {
  Simulation sim;
  const ScopedEvent event(sim.backend);
  EXPECT_TRUE(sim.backend.query_event(event));
  sim.backend.synchronize_event(event);
  sim.backend.wait(sim.stream(), event);
  sim.backend.synchronize_stream(sim.stream());
}

TEST(SimStream, AnEventCompletesWithTheWorkBeforeItAndNotAfter) {
  Simulation sim;
  const ScopedEvent event(sim.backend);
  std::promise<void> first = sim.block(sim.stream());
  sim.backend.record(event, sim.stream());
  std::promise<void> second = sim.block(sim.stream());
  EXPECT_FALSE(sim.backend.query_event(event));
  first.set_value();
  sim.backend.synchronize_event(event);
  EXPECT_TRUE(sim.backend.query_event(event));
  EXPECT_FALSE(sim.backend.query_stream(sim.stream()));
  second.set_value();
}

TEST(SimStream, AWaitRefersToTheLatestRecordBeforeIt) {
  Simulation sim;
  const ScopedEvent event(sim.backend);
  sim.backend.record(event, sim.stream(0, 0));
  sim.backend.wait(sim.stream(0, 1), event);
  std::promise<void> gate = sim.block(sim.stream(0, 0));
  sim.backend.record(event, sim.stream(0, 0));  // does not change what stream 1 waits for
  sim.backend.synchronize_stream(sim.stream(0, 1));
  EXPECT_FALSE(sim.backend.query_event(event));
  gate.set_value();
  sim.backend.synchronize_event(event);
}

TEST(SimStream, AnEventMayBeDestroyedInFlight) {
  Simulation sim;
  float* const data = sim.allocate(0, 1);
  std::promise<void> gate = sim.block(sim.stream(0, 0));
  sim.fill(sim.stream(0, 0), data, 1, 7);
  order(sim, sim.stream(0, 0), sim.stream(0, 1));  // destroys its event
  gate.set_value();
  EXPECT_EQ(sim.receive(sim.stream(0, 1), data, 1), Floats{7});
}

TEST(SimStream, ACopyFromTheHostHasTakenTheBytesWhenItReturns) {
  Simulation sim;
  float* const data = sim.allocate(0, 3);
  std::promise<void> gate = sim.block(sim.stream());
  Floats host = {1, 2, 3};
  sim.send(sim.stream(), data, host);
  host.assign(3, 0);
  gate.set_value();
  EXPECT_EQ(sim.receive(sim.stream(), data, 3), (Floats{1, 2, 3}));
}

TEST(SimStream, CopiesBetweenDevices) {
  Simulation sim;
  float* const there = sim.allocate(1, 3);
  float* const here = sim.allocate(0, 3);
  sim.send(sim.stream(1), there, {4, 5, 6});
  order(sim, sim.stream(1), sim.stream(0));
  sim.send_peer(sim.stream(0), here, 0, there, 1, 3);
  EXPECT_EQ(sim.receive(sim.stream(0), here, 3), (Floats{4, 5, 6}));
}

TEST(SimStream, CopiesRowsBetweenPitches) {
  Simulation sim;
  float* const data = sim.allocate(0, 6);
  sim.fill(sim.stream(), data, 6, 0);
  const Floats host = {1, 2, 3, 4};
  constexpr std::size_t kFloat = sizeof(float);
  // A column of two elements, copied from a 2x2 matrix into the middle of a 2x3 one.
  sim.backend.copy(sim.stream(), {data + 1, host.data(), 0, kHost, kFloat, 2, 3 * kFloat, 2 * kFloat});
  EXPECT_EQ(sim.receive(sim.stream(), data, 6), (Floats{0, 1, 0, 0, 3, 0}));
  Floats column(2);
  sim.backend.copy(sim.stream(), {column.data(), data + 1, kHost, 0, kFloat, 2, kFloat, 3 * kFloat});
  EXPECT_EQ(column, (Floats{1, 3}));
}

TEST(SimStream, MultipliesMatrices) {
  Simulation sim;
  float* const a = sim.allocate(0, 4);
  float* const c = sim.allocate(0, 4);
  sim.send(sim.stream(), a, {1, 2, 3, 4});
  sim.backend.matmul(sim.stream(), {.m = 2, .n = 2, .k = 2, .a = a, .b = a, .c = c, .lda = 2, .ldb = 2, .ldc = 2});
  EXPECT_EQ(sim.receive(sim.stream(), c, 4), (Floats{7, 10, 15, 22}));
}

// Delays must not change the result: a value passes between four streams on two devices.
Floats relay(const SimulationOptions& options) {
  Simulation sim(options);
  float* const data[] = {sim.allocate(0, 8), sim.allocate(1, 8)};
  StreamHandle last = sim.stream(0, 0);
  sim.fill(last, data[0], 8, 1);
  for (int step = 0; step < 24; ++step) {
    const int device = step % 2;
    const StreamHandle next = sim.stream(1 - device, step / 2 % 2);
    order(sim, last, next);
    sim.send_peer(next, data[1 - device], 1 - device, data[device], device, 8);
    sim.add(next, data[1 - device], 8, float(step));
    last = next;
  }
  return sim.receive(last, data[0], 8);
}

TEST(SimStream, DelaysDoNotChangeResults) {
  const Floats expected(8, 1 + 23 * 24 / 2);
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(relay({.count = 2, .seed = seed, .max_delay_us = 200}), expected) << "seed " << seed;
}

TEST(SimStream, AnyThreadMayEnqueue) {
  Simulation sim({.count = 4});
  std::vector<std::thread> threads;
  for (int device = 0; device < 4; ++device) sim.stream(device);
  std::vector<float*> data;
  for (int device = 0; device < 4; ++device) data.push_back(sim.allocate(device, 16));
  for (int device = 0; device < 4; ++device)
    threads.emplace_back([&sim, to = data[std::size_t(device)], on = sim.stream(device)] {
      sim.fill(on, to, 16, 0);
      for (int i = 0; i < 200; ++i) sim.add(on, to, 16, 1);
      EXPECT_EQ(sim.receive(on, to, 16), Floats(16, 200));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep::sim
