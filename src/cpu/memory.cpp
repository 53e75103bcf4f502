#include "cpu/memory.h"

#include <sys/mman.h>

#include <cstdlib>

namespace lockstep::host {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t(2) << 20;

}  // namespace

void* allocate(std::size_t bytes) noexcept {
  void* memory = nullptr;
  const bool huge = bytes >= kHugePage;
  if (::posix_memalign(&memory, huge ? kHugePage : kPage, bytes == 0 ? 1 : bytes) != 0) return nullptr;
  // This is only advice; a system that refuses it has no huge pages.
  if (huge) ::madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void deallocate(void* memory) noexcept { std::free(memory); }

}  // namespace lockstep::host
