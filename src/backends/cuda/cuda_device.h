// A user's device: a card, or a share of one. Records when the host first heard of its loss.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_stream.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/fused_plans.h"
#include "backends/cuda/pinned_cache.h"
#include "core/ranked_mutex.h"

namespace lockstep::gpu {

struct CudaDevice {
  /// `capability`: the first number of the card's compute capability.
  CudaDevice(int index, int on_card, DeviceProperties about, int capability, const CudaOptions& options,
             IssueMutex& issue_mutex)
      : card(on_card),
        properties(std::move(about)),
        memory(index, properties.memory_bytes, options.arena_bytes),
        pinned(index, on_card, issue_mutex),
        fused(index, capability, options.tf32, issue_mutex) {}

  /// Throws BackendError if the card has failed, and records that the host now knows.
  void check_card() {
    const std::scoped_lock lock(mutex);
    if (streams.empty()) return;
    const CudaStream& stream = *streams.front();
    try {
      has_ended(stream.stream.get(), stream.device);
    } catch (const BackendError&) {
      loss_reported_at = std::min(loss_reported_at.load(), std::chrono::steady_clock::now());
      throw;
    }
  }

  const int card;
  const DeviceProperties properties;
  DeviceMemory memory;
  PinnedCache pinned;
  FusedPlans fused;
  std::atomic<std::chrono::steady_clock::time_point> loss_reported_at =
      std::chrono::steady_clock::time_point::max();  ///< When the host first heard of the loss.
  RankedMutex<LockRank::cuda_device> mutex;
  // Guarded by the mutex:
  std::vector<std::unique_ptr<CudaStream>> streams;      // each lives as long as the device
  std::vector<std::unique_ptr<CudaEvent>> spare_events;  // for reuse: creating an event needs its card current
};

}  // namespace lockstep::gpu
