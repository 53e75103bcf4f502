#include "backends/sim/sim_memory.h"

#include <lockstep/core/error.h>

#include "core/text.h"
#include "cpu/memory.h"

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
  if (device != kHost && bytes > limit_bytes_ - used_bytes_[std::size_t(device)]) return nullptr;
  void* const memory = host::allocate(bytes);
  if (memory == nullptr) return nullptr;
  allocations_.emplace(reinterpret_cast<std::uintptr_t>(memory), Allocation{bytes, device});
  if (device != kHost) used_bytes_[std::size_t(device)] += bytes;
  return memory;
}

bool SimMemory::disown(int device, void* memory) {
  const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == allocations_.end() || found->second.device != device) return false;
  if (device != kHost) used_bytes_[std::size_t(device)] -= found->second.bytes;
  allocations_.erase(found);
  return true;
}

void SimMemory::release(void* memory) noexcept { host::deallocate(memory); }

void SimMemory::expect(const char* op, int device, const Region& region, AccessKind kind) const {
  if (is_empty(region)) return;
  const auto [found, bytes] = find(begin_of(region));
  const bool right = found ? found->device == device && region.span_bytes() <= bytes : device == kHost;
  if (!right) refuse(op, device, region, kind, found);
}

void SimMemory::expect_pinned(const char* op, const Region& region) const {
  const auto [found, bytes] = find(begin_of(region));
  if (!found || found->device != kHost)
    throw BackendError(op, kIllegalAddress, name_of(kHost),
                       text("'", op, "' reads ", region.bytes(), " bytes at ", region.data,
                            " of the host asynchronously, but this memory is not page-locked"));
  expect(op, kHost, region, AccessKind::read);
}

SimMemory::Found SimMemory::find(std::uintptr_t address) const {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return {};
  --next;
  const std::uintptr_t end = next->first + next->second.bytes;
  return address < end ? Found{&next->second, end - address} : Found{};
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
