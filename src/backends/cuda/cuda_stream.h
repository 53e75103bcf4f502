// A stream with its workspaces, and an event. A stream's lock is held while an operation is enqueued, and its kernels
// run in order, so all operations of the stream share its workspaces.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_set>

#include "backends/cuda/call.h"
#include "backends/cuda/matmul_plans.h"
#include "runtime/backend.h"

namespace lockstep::gpu {

/// The kernels loaded by a stream. Call it with the stream's card current.
class LoadedKernels final : public KernelLoader {
 public:
  /// `issue_mutex` is held while a kernel is loaded.
  LoadedKernels(int device, IssueMutex& issue_mutex) : device_(device), issue_mutex_(issue_mutex) {}
  void load(const void* kernel) override;

 private:
  const int device_;
  IssueMutex& issue_mutex_;
  std::unordered_set<const void*> loaded_;
};

struct CudaStream {
  CudaStream(int device_, int card_, IssueMutex& issue_mutex)
      : device(device_), card(card_), kernels(device_, issue_mutex) {}

  const int device;
  const int card;
  OwnedMemory workspace;  ///< For kernels. Declared before the stream, which is destroyed first.
  OwnedStream stream;
  RankedMutex<LockRank::cuda_stream> mutex;  ///< Held while kernels or products are enqueued. Guards the members below.
  LoadedKernels kernels;
  std::unique_ptr<MatmulPlans> matmuls;  ///< Created for the first product.
};

/// Returns true if the stream is being captured.
bool is_capturing(const CudaStream& stream);
/// Makes the event mark the work enqueued on the stream so far.
void record_event(const OwnedEvent& event, const CudaStream& stream);

struct CudaEvent {
  int device;
  int card;
  OwnedEvent event;
  std::atomic<bool> is_captured = false;  ///< True if last recorded in a capture: then it never completes by itself.
};

inline CudaStream& stream_of(const StreamHandle& handle) { return *static_cast<CudaStream*>(handle.native); }

}  // namespace lockstep::gpu
