#include "cpu/memory.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep::host {
namespace {

constexpr std::size_t kMiB = std::size_t(1) << 20;

void expect_aligned(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocate(bytes);
  ASSERT_NE(memory, nullptr) << bytes;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u) << bytes;
  deallocate(memory);
}

TEST(HostMemory, IsAlignedToAPageAndFromAHugePageOnToThat) {
  for (const std::size_t bytes : {std::size_t(0), std::size_t(1), kMiB, 2 * kMiB - 1}) expect_aligned(bytes, 4096);
  for (const std::size_t bytes : {2 * kMiB, 2 * kMiB + 1, 20 * kMiB}) expect_aligned(bytes, 2 * kMiB);
}

}  // namespace
}  // namespace lockstep::host
