#include "cpu/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace lockstep::host {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t(2) << 20;

}  // namespace

void* allocate(std::size_t bytes) noexcept {
  void* memory = nullptr;
  const bool huge = bytes >= kHugePage;
  if (::posix_memalign(&memory, huge ? kHugePage : kPage, bytes == 0 ? 1 : bytes) != 0) return nullptr;
  // The result is not checked: madvise() only gives advice, and fails on systems without huge pages.
  if (huge) ::madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void deallocate(void* memory) noexcept { std::free(memory); }

void copy(const KernelContext& context, const Copy& copy) {
  constexpr std::int64_t kGrainBytes = 1 << 20;
  auto* to = static_cast<std::byte*>(copy.to);
  const auto* from = static_cast<const std::byte*>(copy.from);
  if (copy.is_dense())
    return parallel_for(context, std::int64_t(copy.bytes()), kGrainBytes, [&](std::int64_t begin, std::int64_t end) {
      std::memmove(to + begin, from + begin, std::size_t(end - begin));
    });
  const std::int64_t grain = kGrainBytes / std::int64_t(copy.row_bytes + 1) + 1;
  parallel_for(context, std::int64_t(copy.rows), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = std::size_t(begin); row < std::size_t(end); ++row)
      std::memmove(to + row * copy.to_pitch, from + row * copy.from_pitch, copy.row_bytes);
  });
}

}  // namespace lockstep::host
