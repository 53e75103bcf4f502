// Unordered accesses to simulated memory are found when they are enqueued, whatever the timing; ordered ones pass.
#include <lockstep/core/error.h>

#include "runtime/sim_fixture.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kCount = 8;

class RaceDetection : public ::testing::Test {
 protected:
  Simulation sim;
  const StreamHandle a = sim.stream(0, 0), b = sim.stream(0, 1), c = sim.stream(1, 0);
  float* const x = sim.allocate(0, kCount);
  float* const y = sim.allocate(0, kCount);

  void write(StreamHandle on, const char* name = "write") { sim.fill(on, x, kCount, 1, name); }
  void read(StreamHandle on, const char* name = "read") {
    sim.launch(on, name, {reads(floats(x, kCount))}, [](const KernelContext&) {});
  }
};

TEST_F(RaceDetection, ReadAfterWriteWithoutAWaitNamesBoth) {
  write(a, "addmm");
  const std::string message = message_of<RaceError>([&] { read(b, "gather"); });
  EXPECT_TRUE(contains(message, "[sim] 'gather' reads 32 bytes at 0x")) << message;
  EXPECT_TRUE(contains(message, " on cuda:0 stream 1, unordered with 'addmm' that wrote them on cuda:0 stream 0"))
      << message;
}

TEST_F(RaceDetection, WriteAfterReadWithoutAWait) {
  read(a, "forward");
  const std::string message = message_of<RaceError>([&] { write(b, "update"); });
  EXPECT_TRUE(contains(message, "'update' writes 32 bytes")) << message;
  EXPECT_TRUE(contains(message, "'forward' that read them")) << message;
}

TEST_F(RaceDetection, WriteAfterWriteWithoutAWait) {
  write(a);
  EXPECT_THROW(write(b), RaceError);
}

TEST_F(RaceDetection, ReadsNeedNoOrder) {
  write(a);
  sim.backend.synchronize_stream(a);
  read(a);
  read(b);
}

TEST_F(RaceDetection, AWriteMustComeAfterAllReads) {
  read(a);
  read(b);
  order(sim, a, b);
  write(b);
  EXPECT_THROW(read(a), RaceError);
}

TEST_F(RaceDetection, OneStreamIsOrdered) {
  write(a);
  read(a);
  write(a);
}

TEST_F(RaceDetection, AnEventOrders) {
  write(a);
  order(sim, a, b);
  read(b);
  order(sim, b, a);
  write(a);
}

TEST_F(RaceDetection, AnEventOrdersOnlyWhatCameBeforeIt) {
  const ScopedEvent event(sim.backend);
  sim.backend.record(event, a);
  write(a);
  sim.backend.wait(b, event);
  EXPECT_THROW(read(b), RaceError);
}

TEST_F(RaceDetection, AChainOfEventsThroughAThirdStreamOrders) {
  write(a);
  order(sim, a, c);
  order(sim, c, b);
  read(b);
}

TEST_F(RaceDetection, AWaitInTheWrongDirectionDoesNotOrder) {
  write(a);
  order(sim, b, a);
  EXPECT_THROW(read(b), RaceError);
}

TEST_F(RaceDetection, TheHostOrdersByWaiting) {
  const ScopedEvent event(sim.backend);
  write(a);
  sim.backend.synchronize_stream(a);
  write(b);
  sim.backend.record(event, b);
  sim.backend.synchronize_event(event);
  write(a);
  while (!sim.backend.query_stream(a)) std::this_thread::yield();
  write(b);
  sim.backend.record(event, b);
  while (!sim.backend.query_event(event)) std::this_thread::yield();
  write(a);
  sim.receive(a, y, 1);
  write(b);
}

TEST_F(RaceDetection, EnqueueingWithoutWaitingDoesNotOrder) {
  write(a);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the write has ended, but no thread waited
  EXPECT_THROW(read(b), RaceError);
}

TEST_F(RaceDetection, CopiesAreAccesses) {
  write(a);
  float* const there = sim.allocate(1, kCount);
  EXPECT_THROW(sim.send_peer(c, there, 1, x, 0, kCount), RaceError);
  EXPECT_THROW(sim.send(b, x, std::vector<float>(kCount)), RaceError);
  EXPECT_THROW(sim.receive(b, x, kCount), RaceError);
}

TEST_F(RaceDetection, MatrixProductsAreAccesses) {
  const Matmul product = {.m = 2, .n = 2, .k = 2, .a = x, .b = x, .c = y, .lda = 2, .ldb = 2, .ldc = 2};
  sim.backend.matmul(a, product);
  EXPECT_THROW(write(b), RaceError);
  EXPECT_THROW(sim.receive(b, y, 1), RaceError);
  EXPECT_NO_THROW(sim.receive(b, y + 4, 1));  // c has four elements
}

TEST_F(RaceDetection, DisjointRowsAndInterleavedColumnsDoNotRace) {
  constexpr std::size_t kFloat = sizeof(float);
  const auto column = [&](StreamHandle on, std::size_t first, std::size_t width) {
    sim.launch(on, "column", {writes({x + first, width * kFloat, 2, 4 * kFloat})}, [](const KernelContext&) {});
  };
  sim.fill(a, y, 4, 0);
  sim.fill(b, y + 4, 4, 0);
  column(a, 0, 2);
  column(b, 2, 1);
  EXPECT_THROW(column(sim.stream(0, 2), 1, 2), RaceError);
  column(sim.stream(0, 2), 3, 1);
  EXPECT_THROW(read(a), RaceError);
}

TEST_F(RaceDetection, ARefusedOperationLeavesNothingBehind) {
  write(a);
  EXPECT_THROW(sim.assign(b, y, x, kCount), RaceError);
  sim.fill(a, y, kCount, 2);  // no race with the assign, which was refused
  EXPECT_EQ(sim.receive(a, y, kCount), std::vector<float>(kCount, 2));
}

TEST_F(RaceDetection, ADiscardThatRacesIsKeptWithItsStream) {
  write(a, "last_use");
  sim.backend.discard(b, x, kCount * sizeof(float));
  const std::string message = message_of<RaceError>([&] { sim.backend.synchronize_stream(b); });
  EXPECT_TRUE(contains(message, "'discard' writes 32 bytes")) << message;
  EXPECT_TRUE(contains(message, "'last_use'")) << message;
  EXPECT_EQ(sim.receive(a, x, kCount), std::vector<float>(kCount, 1));
}

TEST_F(RaceDetection, FreeingMemoryThatAnotherDeviceStillReadsIsKeptWithItsStream) {
  float* const there = sim.allocate(1, kCount);
  std::promise<void> gate = sim.block(c);
  sim.send_peer(c, there, 1, x, 0, kCount);
  gate.set_value();
  sim.free(x);
  const std::string message = message_of<RaceError>([&] { sim.backend.synchronize_stream(c); });
  EXPECT_TRUE(contains(message, "'deallocate' takes 32 bytes")) << message;
  EXPECT_TRUE(contains(message, "'copy' that read them on cuda:1 stream 0")) << message;
}

TEST_F(RaceDetection, MemoryThatIsAllocatedAgainHasNoPast) {
  float* data = sim.allocate(0, kCount);
  for (int i = 0; i < 20; ++i) {
    sim.fill(i % 2 ? a : b, data, kCount, 0);
    sim.free(data);
    data = sim.allocate(0, kCount);
  }
}

TEST_F(RaceDetection, CanBeSwitchedOff) {
  Simulation unchecked({.count = 1, .check_races = false});
  float* const data = unchecked.allocate(0, kCount);
  for (int id = 0; id < 2; ++id)
    unchecked.launch(unchecked.stream(0, id), "write", {writes(floats(data, kCount))}, [](const KernelContext&) {});
}

// A producer on one device and a consumer on another share two buffers, as in a pipeline.
void pipeline(Simulation& sim, float* const (&buffers)[2], float* result, int iterations) {
  const StreamHandle producer = sim.stream(0), consumer = sim.stream(1);
  const ScopedEvent full(sim.backend, 0), empty[2] = {ScopedEvent(sim.backend, 1), ScopedEvent(sim.backend, 1)};
  for (int i = 0; i < iterations; ++i) {
    sim.backend.wait(producer, empty[i % 2]);
    sim.fill(producer, buffers[i % 2], kCount, float(i), "produce");
    sim.backend.record(full, producer);
    sim.backend.wait(consumer, full);
    sim.send_peer(consumer, result, 1, buffers[i % 2], 0, kCount);
    sim.backend.record(empty[i % 2], consumer);
  }
}

void run_pipeline(const SimulationOptions& options, FaultKind kind, const Fault* fault, std::string& message) {
  Simulation sim(options);
  sim.stream(0), sim.stream(1);
  float* const buffers[2] = {sim.allocate(0, kCount), sim.allocate(0, kCount)};
  float* const result = sim.allocate(1, kCount);
  if (fault != nullptr) sim.backend.inject(kind, *fault);
  message = message_of<RaceError>([&] { pipeline(sim, buffers, result, 6); });
}

TEST(RaceDetectionOfFaults, APipelineWithAllItsWaitsIsOrdered) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    std::string message;
    run_pipeline({.count = 2, .seed = seed, .max_delay_us = 50}, FaultKind::wait, nullptr, message);
    EXPECT_EQ(message, "no error");
  }
}

TEST(RaceDetectionOfFaults, EveryDroppedWaitIsFound) {
  std::string message;
  for (std::uint64_t nth = 1; nth <= 6; ++nth) {
    const Fault consumer = {.device = 1, .nth = nth};
    run_pipeline({.count = 2}, FaultKind::wait, &consumer, message);
    EXPECT_TRUE(contains(message, "'copy' reads 32 bytes")) << nth << message;
    EXPECT_TRUE(contains(message, "'produce' that wrote them")) << nth << message;
  }
  for (std::uint64_t nth = 3; nth <= 6; ++nth) {  // the first two waits protect unused buffers
    const Fault producer = {.device = 0, .nth = nth};
    run_pipeline({.count = 2}, FaultKind::wait, &producer, message);
    EXPECT_TRUE(contains(message, "'produce' writes 32 bytes")) << nth << message;
    EXPECT_TRUE(contains(message, "'copy' that read them")) << nth << message;
  }
}

TEST(RaceDetectionOfFaults, EveryDroppedRecordIsFound) {
  std::string message;
  for (std::uint64_t nth = 1; nth <= 6; ++nth) {
    const Fault producer = {.device = 0, .nth = nth};
    run_pipeline({.count = 2}, FaultKind::record, &producer, message);
    EXPECT_TRUE(contains(message, "'copy' reads 32 bytes")) << nth << message;
  }
  for (std::uint64_t nth = 1; nth <= 4; ++nth) {  // no work follows the last two records
    const Fault consumer = {.device = 1, .nth = nth};
    run_pipeline({.count = 2}, FaultKind::record, &consumer, message);
    EXPECT_TRUE(contains(message, "'produce' writes 32 bytes")) << nth << message;
  }
}

std::size_t history_after(int iterations) {
  Simulation sim;
  sim.stream(0), sim.stream(1);
  float* const buffers[2] = {sim.allocate(0, kCount), sim.allocate(0, kCount)};
  pipeline(sim, buffers, sim.allocate(1, kCount), iterations);
  return sim.backend.history_size();
}

TEST(RaceHistory, StaysBoundedInALongLoop) {
  EXPECT_LE(history_after(10), 8u);
  EXPECT_EQ(history_after(10000), history_after(10));
}

TEST(RaceHistory, StaysBoundedWhenOneBufferIsCutDifferentlyEachTime) {
  Simulation sim({.count = 1});
  const StreamHandle a = sim.stream(0, 0), b = sim.stream(0, 1);
  float* const data = sim.allocate(0, 64);
  for (std::size_t i = 0; i < 10000; ++i) {
    sim.fill(a, data + i % 7 * 8, 8 + i % 3 * 4, 0);
    order(sim, a, b);
    sim.launch(b, "read", {reads(floats(data + i % 5 * 4, 16))}, [](const KernelContext&) {});
    order(sim, b, a);
  }
  EXPECT_LE(sim.backend.history_size(), 64u);
}

}  // namespace
}  // namespace lockstep::sim
