// Memory statistics by device, and the table of devices.
#include <lockstep/runtime/memory.h>

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/runtime/stream.h>

#include "runtime/registry.h"

namespace lockstep {
namespace {

constexpr std::size_t kMiB = std::size_t(1) << 20;

CachingAllocator::Allocation allocate(Device device, std::size_t bytes) {
  DeviceState& state = device_state(device);
  return state.allocator.allocate(bytes, state.stream(0));
}

std::vector<std::string> table() {
  std::stringstream out;
  print_devices(out);
  std::vector<std::string> lines;
  for (std::string line; std::getline(out, line);) lines.push_back(line);
  return lines;
}

// The devices' first row of the table: after a rule, the titles and another rule.
constexpr std::size_t kFirstRow = 3;

class Memory : public ::testing::Test {
 protected:
  SimulatedDevices devices{{.count = 2, .memory_bytes = 64 * kMiB, .max_delay_us = 50}};
};

TEST_F(Memory, IsCountedForEachDevice) {
  const auto held = allocate("cuda:1", 3 * kMiB);
  EXPECT_EQ(memory_stats("cuda:0").in_use, 0u);
  EXPECT_EQ(memory_stats("cuda:1").in_use, 3 * kMiB);
  device_state("cuda:1").allocator.free(held.block);
}

TEST_F(Memory, PeaksAreResetForOneDevice) {
  for (const Device device : {Device("cuda:0"), Device("cuda:1")}) {
    device_state(device).allocator.free(allocate(device, 3 * kMiB).block);
  }
  reset_peak_memory("cuda:1");
  EXPECT_EQ(memory_stats("cuda:0").peak_in_use, 3 * kMiB);
  EXPECT_EQ(memory_stats("cuda:1").peak_in_use, 0u);
}

TEST_F(Memory, TheCacheIsEmptiedForOneDevice) {
  for (const Device device : {Device("cuda:0"), Device("cuda:1")}) {
    device_state(device).allocator.free(allocate(device, 3 * kMiB).block);
  }
  empty_cache("cuda:1");
  EXPECT_EQ(memory_stats("cuda:0").reserved, 20 * kMiB);
  EXPECT_EQ(memory_stats("cuda:1").reserved, 0u);
}

// Writes a block on its own stream and reads it on another one that waits for the write.
CachingAllocator::Allocation use_on_two_streams(const Stream& own, const Stream& other) {
  DeviceState& state = device_state(own.device());
  const auto block = state.allocator.allocate(4096, state.stream(own.id()));
  const MemoryAccess write = {{block.memory, 4096, 1, 4096}, AccessKind::write};
  const MemoryAccess read = {{block.memory, 4096, 1, 4096}, AccessKind::read};
  state.backend.launch(state.stream(own.id()), {"write", 0, {&write, 1}}, [](const KernelContext&) {});
  other.wait(own.record());
  state.backend.launch(state.stream(other.id()), {"read", 0, {&read, 1}}, [](const KernelContext&) {});
  return block;
}

TEST_F(Memory, IsReusedWithoutARaceWhenItsOtherStreamWasRecorded) {
  DeviceState& state = device_state("cuda:0");
  const Stream own = Stream::default_stream("cuda:0");
  const Stream other = Stream::from_pool("cuda:0");
  for (int i = 0; i < 50; ++i) {
    const auto block = use_on_two_streams(own, other);
    state.allocator.record_stream(block.block, state.stream(other.id()));
    state.allocator.free(block.block);
  }
  EXPECT_NO_THROW(synchronize("cuda:0"));
}

TEST_F(Memory, IsFreedInARaceWhenItsOtherStreamWasNotRecorded) {
  const Stream own = Stream::default_stream("cuda:0");
  const auto block = use_on_two_streams(own, Stream::from_pool("cuda:0"));
  device_state("cuda:0").allocator.free(block.block);
  EXPECT_THROW(synchronize("cuda:0"), RaceError);
}

TEST_F(Memory, OfADeviceThatIsNotThereIsAnError) {
  EXPECT_THROW(memory_stats("cuda:2"), InvalidArgument);
  EXPECT_THROW(reset_peak_memory("cuda:2"), InvalidArgument);
  EXPECT_THROW(empty_cache("cuda:2"), InvalidArgument);
}

TEST_F(Memory, TheTableHasARowForEachDevice) {
  const std::vector<std::string> lines = table();
  ASSERT_EQ(lines.size(), kFirstRow + 3 + 1);
  EXPECT_TRUE(lines[kFirstRow].starts_with("| cpu ")) << lines[kFirstRow];
  EXPECT_TRUE(lines[kFirstRow + 1].starts_with("| cuda:0 ")) << lines[kFirstRow + 1];
  EXPECT_TRUE(lines[kFirstRow + 2].starts_with("| cuda:1 ")) << lines[kFirstRow + 2];
}

TEST_F(Memory, ARowOfTheTableTellsNameInUsePeakAndTotal) {
  const auto held = allocate("cuda:1", 3 * kMiB);
  device_state("cuda:1").allocator.free(allocate("cuda:1", 2 * kMiB + kMiB / 2).block);
  std::istringstream row(table()[kFirstRow + 2]);
  device_state("cuda:1").allocator.free(held.block);
  std::string words;
  for (std::string word; row >> word;) words += word + ' ';
  EXPECT_EQ(words, "| cuda:1 | Simulated GPU | 3.0 MiB | 5.5 MiB | 64.0 MiB | ");
}

TEST_F(Memory, TheLinesOfTheTableAreEquallyLong) {
  const std::vector<std::string> lines = table();
  for (const std::string& line : lines) EXPECT_EQ(line.size(), lines[0].size()) << line;
}

TEST(MemoryWithoutGpus, TheTableShowsTheCpu) {
  const std::vector<std::string> lines = table();
  ASSERT_GT(lines.size(), kFirstRow);
  EXPECT_TRUE(lines[kFirstRow].starts_with("| cpu ")) << lines[kFirstRow];
}

TEST(MemoryOfAllGpus, ByPyTorchsNames) {
  const SimulatedDevices devices({.count = 2});
  for (const char* device : {"cuda:0", "cuda:1"}) {
    const auto block = allocate(device, kMiB);
    device_state(device).allocator.free(block.block);
    EXPECT_GT(memory_stats(device).reserved, 0u);
  }
  cuda::synchronize();
  cuda::synchronize(1);
  cuda::synchronize("cuda:0");
  cuda::empty_cache();
  for (const char* device : {"cuda:0", "cuda:1"}) EXPECT_EQ(memory_stats(device).reserved, 0u);
  EXPECT_THROW(cuda::synchronize(2), InvalidArgument);
  EXPECT_THROW(cuda::synchronize("cpu"), InvalidArgument);
}

TEST(MemoryOfAllGpus, WithoutAGpuThereIsNothingToWaitFor) {
  if (cuda::is_available()) GTEST_SKIP() << "there is a GPU";
  EXPECT_NO_THROW(cuda::empty_cache());
  EXPECT_THROW(cuda::synchronize(), InvalidArgument);
}

}  // namespace
}  // namespace lockstep
