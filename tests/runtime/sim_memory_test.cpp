// Simulated memory has a limit and an owner, and every access is checked when the work is enqueued.
#include <lockstep/core/error.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/sim_fixture.h"
#include "support/must_end.h"

namespace lockstep::sim {
namespace {

TEST(SimMemory, HasALimitForEachDevice) {
  Simulation sim({.count = 2, .memory_bytes = 1024});
  EXPECT_EQ(sim.backend.properties(0).memory_bytes, 1024u);
  float* const first = sim.allocate(0, 192);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(sim.allocate(0, 65), nullptr);
  EXPECT_NE(sim.allocate(0, 64), nullptr);
  EXPECT_NE(sim.allocate(1, 256), nullptr);
  sim.free(first);
  EXPECT_NE(sim.allocate(0, 192), nullptr);
}

TEST(SimMemory, IsAligned) {
  Simulation sim;
  for (std::size_t count : {1, 3, 100}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(sim.allocate(0, count)) % 256, 0u);
}

TEST(SimMemory, TouchingAnotherDevicesMemoryThrowsBeforeAnythingIsEnqueued) {
  Simulation sim;
  float* const data = sim.allocate(1, 4);
  sim.fill(sim.stream(1), data, 4, 1);
  const std::string message = message_of<BackendError>([&] { sim.fill(sim.stream(0), data, 4, 9, "scale"); });
  EXPECT_TRUE(contains(message, "'scale' writes 16 bytes at ")) << message;
  EXPECT_TRUE(contains(message, "on cuda:0")) << message;
  EXPECT_TRUE(contains(message, "that live on cuda:1")) << message;
  EXPECT_TRUE(contains(message, "700")) << message;
  sim.backend.synchronize_stream(sim.stream(0));
  EXPECT_EQ(sim.receive(sim.stream(1), data, 4), std::vector<float>(4, 1));
  EXPECT_EQ(sim.backend.counts(0).launches, 0u);
}

TEST(SimMemory, AnAccessMustStayWithinOneAllocation) {
  Simulation sim;
  float* const data = sim.allocate(0, 4);
  const std::string message = message_of<BackendError>([&] { sim.fill(sim.stream(), data, 5, 0); });
  EXPECT_TRUE(contains(message, "past the end of their allocation of 16 bytes")) << message;
}

TEST(SimMemory, TheLastRowOfARegionMayEndWithTheAllocation) {
  Simulation sim;
  float* const data = sim.allocate(0, 7);
  const Region column = {data + 2, sizeof(float), 2, 4 * sizeof(float)};
  sim.launch(sim.stream(), "column", {writes(column)}, [](const KernelContext&) {});
  const Region longer = {data + 3, sizeof(float), 2, 4 * sizeof(float)};
  EXPECT_THROW(sim.launch(sim.stream(), "column", {writes(longer)}, [](const KernelContext&) {}), BackendError);
}

TEST(SimMemory, UseAfterFreeIsFoundWhenEnqueued) {
  Simulation sim;
  float* const data = sim.allocate(0, 4);
  sim.free(data);
  const std::string message = message_of<BackendError>([&] { sim.fill(sim.stream(), data, 4, 0, "late"); });
  EXPECT_TRUE(contains(message, "'late' writes 16 bytes")) << message;
  EXPECT_TRUE(contains(message, "no live allocation")) << message;
}

TEST(SimMemory, KernelsMayNotTouchHostMemory) {
  Simulation sim;
  std::vector<float> host(4);
  EXPECT_THROW(sim.fill(sim.stream(), host.data(), 4, 0), BackendError);
}

TEST(SimMemory, CopiesCheckBothEnds) {
  Simulation sim;
  float* const here = sim.allocate(0, 4);
  float* const there = sim.allocate(1, 4);
  std::vector<float> host(4);
  EXPECT_THROW(sim.send_peer(sim.stream(0), here, 0, there, 0, 4), BackendError);
  EXPECT_THROW(sim.send_peer(sim.stream(0), here, 1, there, 1, 4), BackendError);
  EXPECT_THROW(sim.send_peer(sim.stream(0), here, 0, host.data(), 0, 4), BackendError);
  const std::string message = message_of<BackendError>([&] { sim.send_peer(sim.stream(0), here, 0, there, kHost, 4); });
  EXPECT_TRUE(contains(message, "on the host")) << message;
  EXPECT_TRUE(contains(message, "that live on cuda:1")) << message;
}

TEST(SimMemory, MatrixProductsCheckAllThreeOperands) {
  Simulation sim;
  const float* const a = sim.allocate(0, 6);
  const float* const b = sim.allocate(0, 6);
  float* const c = sim.allocate(0, 4);
  const Matmul right = {.m = 2, .n = 2, .k = 3, .a = a, .b = b, .c = c, .lda = 3, .ldb = 2, .ldc = 2};
  sim.backend.matmul(sim.stream(), right);
  for (int wrong = 0; wrong < 3; ++wrong) {
    Matmul product = right;
    (wrong == 0 ? product.lda : wrong == 1 ? product.ldb : product.ldc) += 1;
    EXPECT_THROW(sim.backend.matmul(sim.stream(), product), BackendError) << wrong;
  }
}

TEST(SimMemory, DiscardPoisonsInStreamOrder) {
  Simulation sim;
  float* const data = sim.allocate(0, 4);
  sim.fill(sim.stream(), data, 4, 1);
  sim.backend.discard(sim.stream(), data, 2 * sizeof(float));
  const std::vector<float> values = sim.receive(sim.stream(), data, 4);
  EXPECT_NE(values[0], values[0]);  // NaN
  EXPECT_NE(values[1], values[1]);
  EXPECT_EQ(values[2], 1);
}

TEST(SimMemory, DeallocateWaitsForTheWorkOfItsDevice) {
  Simulation sim;
  float* const data = sim.allocate(0, 4);
  std::promise<void> gate = sim.block(sim.stream(0, 1));
  sim.fill(sim.stream(0, 1), data, 4, 1);
  std::thread opener([&gate] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    gate.set_value();
  });
  sim.free(data);
  EXPECT_TRUE(sim.backend.query_stream(sim.stream(0, 1)));
  opener.join();
}

// As with cudaFree: the other device's work may wait for this thread.
TEST(SimMemory, DeallocateDoesNotWaitForTheWorkOfOtherDevices) {
  Simulation sim;
  float* const data = sim.allocate(0, 4);
  std::promise<void> gate = sim.block(sim.stream(1));
  testing::must_end({[&] { sim.free(data); }});
  EXPECT_FALSE(sim.backend.query_stream(sim.stream(1)));
  gate.set_value();
}

// Work of another device that was never ordered before the release does not read what is no memory any more.
TEST(SimMemory, IsKeptUntilOtherDevicesHaveReadIt) {
  Simulation sim;
  float* const data = sim.allocate(0, 1024);
  sim.fill(sim.stream(0), data, 1024, 1);
  sim.backend.synchronize_stream(sim.stream(0));
  float* const there = sim.allocate(1, 1024);
  std::promise<void> gate = sim.block(sim.stream(1));
  sim.backend.copy(sim.stream(1), {.to = there, .from = data, .to_device = 1, .from_device = 0, .row_bytes = 4096});
  sim.free(data);
  std::fill_n(sim.allocate(0, 1024), 1024, 7.f);  // which is other memory
  gate.set_value();
  const std::string message = message_of<RaceError>([&] { sim.backend.synchronize_stream(sim.stream(1)); });
  EXPECT_TRUE(contains(message, "'deallocate' takes 4096 bytes")) << message;
  EXPECT_EQ(there[0], 1);
}

class PageLockedMemory : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4 * sizeof(float);
  PageLockedMemory() : pinned(static_cast<float*>(sim.backend.allocate_pinned(kBytes))) { std::fill_n(pinned, 4, 1.f); }
  ~PageLockedMemory() override {
    sim.backend.drain();
    if (pinned) sim.backend.deallocate_pinned(pinned, kBytes);
  }
  void copy(const float* from) {
    sim.backend.copy(sim.stream(), {.to = there, .from = from, .to_device = 0, .row_bytes = kBytes, .pinned = true});
  }

  Simulation sim;
  float* const there = sim.allocate(0, 4);
  float* pinned;
};

TEST_F(PageLockedMemory, IsReadInTheOrderOfTheStream) {
  std::promise<void> go = sim.block(sim.stream());
  copy(pinned);
  std::fill_n(pinned, 4, 2.f);
  go.set_value();
  EXPECT_EQ(sim.receive(sim.stream(), there, 4), std::vector<float>(4, 2));
}

TEST_F(PageLockedMemory, IsTheHostsAndNoDevices) {
  const std::string message = message_of<BackendError>([&] { sim.fill(sim.stream(), pinned, 4, 0); });
  EXPECT_TRUE(contains(message, "that live on the host")) << message;
  // Without Copy::pinned, the copy treats it as pageable memory.
  sim.backend.copy(sim.stream(), {.to = there, .from = pinned, .to_device = 0, .row_bytes = kBytes});
  EXPECT_EQ(sim.receive(sim.stream(), there, 4), std::vector<float>(4, 1));
}

TEST_F(PageLockedMemory, IsNeededWhereTheCopySaysSo) {
  const float pageable[4] = {};
  const std::string message = message_of<BackendError>([&] { copy(pageable); });
  EXPECT_TRUE(contains(message, "this memory is not page-locked")) << message;
  EXPECT_EQ(sim.backend.counts(0).copies, 0u);
}

TEST_F(PageLockedMemory, IsNotToBeGivenBackWhileACopyMayReadIt) {
  std::promise<void> go = sim.block(sim.stream());
  copy(pinned);
  std::thread later([&] { go.set_value(); });
  sim.backend.deallocate_pinned(std::exchange(pinned, nullptr), kBytes);
  later.join();
  const std::string message = message_of<RaceError>([&] { sim.backend.synchronize_stream(sim.stream()); });
  EXPECT_TRUE(contains(message, "'deallocate_pinned' takes 16 bytes")) << message;
}

TEST_F(PageLockedMemory, IsWrittenByTheHostWhenTheHostHasWaited) {
  copy(pinned);
  const std::string message = message_of<RaceError>([&] { sim.backend.host_writes(pinned, kBytes); });
  EXPECT_TRUE(contains(message, "the host writes 16 bytes")) << message;
  sim.backend.synchronize_stream(sim.stream());
  sim.backend.host_writes(pinned, kBytes);
}

}  // namespace
}  // namespace lockstep::sim
