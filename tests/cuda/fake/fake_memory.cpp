// The fake CUDA runtime's memory and copies.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "cuda/fake/fake_work.h"

namespace lockstep::fake {
namespace {

struct Memory {
  std::size_t bytes;
  int card;
  bool usable;
};

std::map<const std::byte*, Memory> memories;

std::size_t used(int card) {
  std::size_t bytes = 0;
  for (const auto& [at, memory] : memories) bytes += memory.card == card ? memory.bytes : 0;
  return bytes;
}

// Memory full of bytes 0xff, a NaN in every floating-point type. Null if there is none.
#ifdef __SANITIZE_ADDRESS__
std::byte* allocate(std::size_t bytes) {  // AddressSanitizer surrounds it with guards
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return memory ? static_cast<std::byte*>(std::memset(memory, 0xff, bytes)) : nullptr;
}
void deallocate(void* memory, std::size_t) { std::free(memory); }
#else
// Maps the pages of one file repeatedly: only a written page takes memory. The library's allocator takes much memory
// from a card that is never written.
std::byte* allocate(std::size_t bytes) {
  constexpr std::size_t kFileBytes = std::size_t(2) << 20;
  static const int file = [] {
    const std::vector<std::byte> content(kFileBytes, std::byte(0xff));
    const int made = ::memfd_create("0xff", MFD_CLOEXEC);
    return ::write(made, content.data(), kFileBytes) == ssize_t(kFileBytes) ? made : -1;
  }();
  void* const memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  for (std::size_t done = 0; done < bytes; done += kFileBytes)
    if (::mmap(begin + done, std::min(bytes - done, kFileBytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file,
               0) == MAP_FAILED) {
      ::munmap(memory, bytes);
      return nullptr;
    }
  return begin;
}
void deallocate(void* memory, std::size_t bytes) { ::munmap(memory, bytes); }
#endif

cudaError_t make_memory(void** memory, std::size_t bytes, int card) {
  const auto held = lock();
  if (card >= 0 && used(card) + bytes > machine().card_bytes) return cudaErrorMemoryAllocation;
  const bool usable = !machine().address_only || card < 0;
  if (usable) {
    *memory = allocate(bytes);
    if (*memory == nullptr) return cudaErrorMemoryAllocation;
  } else {
    *memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*memory == MAP_FAILED) return cudaErrorMemoryAllocation;
  }
  memories[static_cast<std::byte*>(*memory)] = {bytes, card, usable};
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  const auto held = lock();
  const auto found = memories.find(static_cast<std::byte*>(memory));
  if (memory == nullptr) return cudaSuccess;
  if (found == memories.end()) {
    complain("freed what was not allocated");
    return cudaErrorInvalidValue;
  }
  if (found->second.usable)
    deallocate(memory, found->second.bytes);
  else
    ::munmap(memory, found->second.bytes);
  memories.erase(found);
  return cudaSuccess;
}

std::multiset<const std::byte*> reads;  // source addresses of pending copies

// One pending read. It ends with the copy, or with the stream if that is destroyed first.
class Read {
 public:
  explicit Read(const std::byte* from) : at_(reads.insert(from)) {}  // with the lock held
  ~Read() {
    const auto held = lock();
    reads.erase(at_);
  }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

 private:
  std::multiset<const std::byte*>::iterator at_;
};

// Enqueues a copy or a fill.
cudaError_t enqueue_copy(cudaStream_t stream, std::function<void()> run, const void* from = nullptr) {
  const auto held = lock();
  ++machine().copies;
  const auto* const read = static_cast<const std::byte*>(from);
  if (!read || is_capturing(stream) || state(stream->card) != cudaSuccess) return enqueue(stream, std::move(run));
  return enqueue(stream, [run = std::move(run), reading = std::make_shared<Read>(read)] { run(); });
}

// The limit is cudaDeviceProp::memPitch.
bool is_pitch(std::size_t pitch, std::size_t row_bytes) { return pitch >= row_bytes && pitch <= INT32_MAX; }

void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t bytes,
               std::size_t rows, int to_card, int from_card) {
  expect_memory("copy", to, (rows - 1) * to_pitch + bytes, to_card);
  expect_memory("copy", from, (rows - 1) * from_pitch + bytes, from_card);
  if (machine().address_only) return;
  for (std::size_t row = 0; row < rows; ++row)
    std::memcpy(static_cast<std::byte*>(to) + row * to_pitch, static_cast<const std::byte*>(from) + row * from_pitch,
                bytes);
}

}  // namespace

void expect_memory(const char* api, const void* memory, std::size_t bytes, int card) {
  const auto held = lock();
  const auto* const begin = static_cast<const std::byte*>(memory);
  auto after = memories.upper_bound(begin);
  if (after == memories.begin()) return complain(std::string(api) + " of pageable memory");
  const auto& [start, found] = *--after;
  if (begin + bytes > start + found.bytes) return complain(std::string(api) + " beyond an allocation");
  if (card >= -1 && card != found.card) complain(std::string(api) + " of memory of another card");
}

}  // namespace lockstep::fake

using namespace lockstep::fake;

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  use_card();
  may_wait_for_cards("cudaMalloc");
  const auto held = lock();
  if (state(current_card()) != cudaSuccess) return state(current_card());
  ++machine().allocations;
  return make_memory(memory, bytes, current_card());
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  use_card();
  may_wait_for_cards("cudaHostAlloc");
  const auto held = lock();
  if (state(current_card()) != cudaSuccess) return state(current_card());
  if (used(-1) + bytes > machine().pinned_bytes) return cudaErrorMemoryAllocation;
  ++machine().pinned_allocations;
  return make_memory(memory, bytes, -1);
}
cudaError_t cudaFree(void* memory) {
  may_wait_for_cards("cudaFree");
  return release(memory);
}
cudaError_t cudaFreeHost(void* memory) {
  const auto held = lock();
  const auto found = memories.find(static_cast<std::byte*>(memory));
  if (found != memories.end() && machine().trapped.empty()) {
    const auto read = reads.lower_bound(found->first);
    if (read != reads.end() && *read < found->first + found->second.bytes)
      complain("freed page-locked memory that a copy has still to read");
  }
  return release(memory);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t bytes, std::size_t rows, cudaMemcpyKind, cudaStream_t stream) {
  if (!is_pitch(to_pitch, bytes) || !is_pitch(from_pitch, bytes)) return cudaErrorInvalidPitchValue;
  return enqueue_copy(
      stream, [=] { copy_rows(to, to_pitch, from, from_pitch, bytes, rows, -2, -2); }, from);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const int from_card = kind == cudaMemcpyHostToDevice ? -1 : -2;
  return enqueue_copy(
      stream, [=] { copy_rows(to, bytes, from, bytes, bytes, 1, -2, from_card); }, from);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  const auto held = lock();
  if (state(current_card()) == cudaSuccess) std::memcpy(to, from, bytes);
  return state(current_card());
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_card, const void* from, int from_card, std::size_t bytes,
                                cudaStream_t stream) {
  return enqueue_copy(stream, [=] { copy_rows(to, bytes, from, bytes, bytes, 1, to_card, from_card); });
}
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* of, cudaStream_t stream) {
  if (!is_pitch(of->dstPtr.pitch, of->extent.width) || !is_pitch(of->srcPtr.pitch, of->extent.width))
    return cudaErrorInvalidPitchValue;
  return enqueue_copy(stream, [p = *of] {
    copy_rows(p.dstPtr.ptr, p.dstPtr.pitch, p.srcPtr.ptr, p.srcPtr.pitch, p.extent.width, p.extent.height, p.dstDevice,
              p.srcDevice);
  });
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return enqueue_copy(stream, [=] {
    if (!machine().address_only) std::memset(memory, value, bytes);
  });
}

}  // extern "C"
