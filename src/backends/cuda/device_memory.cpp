#include "backends/cuda/device_memory.h"

namespace lockstep::gpu {

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (arena_bytes_ != 0) return allocate_in_arena(bytes);
  if (bytes > share_ - taken_) return nullptr;
  void* const memory = allocate_on_card(bytes);
  if (memory) taken_ += bytes;
  return memory;
}

void* DeviceMemory::allocate_on_card(std::size_t bytes) const {
  void* memory = nullptr;
  return has_room(cudaMalloc(&memory, bytes), "cudaMalloc", device_) ? memory : nullptr;
}

void* DeviceMemory::allocate_in_arena(std::size_t bytes) {
  if (!arena_) {
    arena_memory_.reset(allocate_on_card(arena_bytes_));
    if (!arena_memory_) return nullptr;
    arena_.emplace(arena_bytes_);
  }
  const std::optional<std::size_t> offset = arena_->take(bytes);
  return offset ? static_cast<std::byte*>(arena_memory_.get()) + *offset : nullptr;
}

void DeviceMemory::deallocate(void* memory, std::size_t bytes) noexcept {
  const std::scoped_lock lock(mutex_);
  if (arena_) {
    const auto offset = static_cast<std::byte*>(memory) - static_cast<std::byte*>(arena_memory_.get());
    return arena_->give(std::size_t(offset), bytes);
  }
  cudaFree(memory);
  taken_ -= bytes;
}

}  // namespace lockstep::gpu
