#include "runtime/sim/sim_memory.h"

#include <lockstep/core/error.h>

#include "core/text.h"
#include "runtime/host/memory.h"

namespace lockstep::sim {
namespace {

std::string name_of(int device) { return device == kHost ? "the host" : Device::cuda(device).name(); }

}  // namespace

SimMemory::SimMemory(int devices, std::size_t bytes_per_device)
    : limit_bytes_(bytes_per_device), used_bytes_(std::size_t(devices)) {}

SimMemory::~SimMemory() {
  for (const auto& [address, allocation] : allocations_) release(reinterpret_cast<void*>(address));
}

void* SimMemory::allocate(int device, std::size_t bytes) {
  std::size_t& used = used_bytes_[std::size_t(device)];
  if (bytes > limit_bytes_ - used) return nullptr;
  void* const memory = host::allocate(bytes);
  if (memory == nullptr) return nullptr;
  allocations_.emplace(reinterpret_cast<std::uintptr_t>(memory), Allocation{bytes, device});
  used += bytes;
  return memory;
}

bool SimMemory::disown(int device, void* memory) {
  const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == allocations_.end() || found->second.device != device) return false;
  used_bytes_[std::size_t(device)] -= found->second.bytes;
  allocations_.erase(found);
  return true;
}

void SimMemory::release(void* memory) noexcept { host::deallocate(memory); }

void SimMemory::expect(const char* op, int device, const Region& region, AccessKind kind) const {
  if (is_empty(region)) return;
  const std::uintptr_t begin = begin_of(region);
  auto next = allocations_.upper_bound(begin);
  const Allocation* found = nullptr;
  std::uintptr_t end = 0;
  if (next != allocations_.begin()) {
    --next;
    end = next->first + next->second.bytes;
    if (begin < end) found = &next->second;
  }
  const bool right = found ? found->device == device && region.span_bytes() <= end - begin : device == kHost;
  if (!right) refuse(op, device, region, kind, found);
}

void SimMemory::refuse(const char* op, int device, const Region& region, AccessKind kind,
                       const Allocation* found) const {
  const std::string where = !found ? std::string("that no live allocation holds")
                            : found->device != device
                                ? text("that live on ", name_of(found->device))
                                : text("that run past the end of their allocation of ", found->bytes, " bytes");
  throw BackendError(op, kIllegalAddress, name_of(device),
                     text("'", op, "' ", kind == AccessKind::write ? "writes " : "reads ", region.bytes(), " bytes at ",
                          region.data, ' ', where));
}

}  // namespace lockstep::sim
