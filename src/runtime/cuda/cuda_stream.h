// A stream, and what work on it shares: one body at a time is enqueued, and so may use the stream's workspaces. An
// event.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_set>

#include "runtime/backend.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/matmul_plans.h"

namespace lockstep::gpu {

/// The kernels that a stream has launched. To be called with the card current.
class LoadedKernels final : public KernelLoader {
 public:
  /// `issuing` is held while a kernel is loaded.
  LoadedKernels(int device, IssuingMutex& issuing) : device_(device), issuing_(issuing) {}
  void load(const void* kernel) override;

 private:
  const int device_;
  IssuingMutex& issuing_;
  std::unordered_set<const void*> loaded_;
};

struct CudaStream {
  CudaStream(int device_, int card_, IssuingMutex& issuing) : device(device_), card(card_), kernels(device_, issuing) {}

  const int device;
  const int card;
  OwnedMemory workspace;  ///< Of kernels. Before the stream, which is destroyed first.
  OwnedStream stream;
  RankedMutex<LockRank::cuda_stream> mutex;  ///< Held while kernels or products are enqueued. Guards what follows.
  LoadedKernels kernels;
  std::unique_ptr<MatmulPlans> matmuls;  ///< Made for the first product.
};

/// Whether the stream's work is captured.
bool is_capturing(const CudaStream& stream);

struct CudaEvent {
  int device;
  int card;
  OwnedEvent event;
  std::atomic<bool> is_captured = false;  ///< Last recorded in a capture: it never passes by itself.
};

inline CudaStream& stream_of(const StreamHandle& handle) { return *static_cast<CudaStream*>(handle.native); }

}  // namespace lockstep::gpu
