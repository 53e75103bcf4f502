// Fused operations of one device (docs/fused.md): convolutions by cuDNN, with a handle and the plan for each
// description, and attention by kernels of our own. Safe from any thread.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "backends/cuda/call.h"
#include "backends/cuda/cudnn/convolution.h"
#include "core/ranked_mutex.h"
#include "runtime/backend.h"

namespace lockstep::gpu {

class FusedPlans {
 public:
  /// `issue_mutex` is held while cuDNN is initialized, makes a plan, or runs one for the first time. `capability`: the
  /// first number of the card's compute capability.
  FusedPlans(int device, int capability, bool tf32, IssueMutex& issue_mutex)
      : device_(device), capability_(capability), tf32_(tf32), issue_mutex_(issue_mutex) {}

  /// Returns the bytes of workspace. Returns nullopt for attention that the kernels do not support, and for
  /// convolutions if cuDNN cannot be loaded, does not support the card, or has no suitable engine. The device's card
  /// must be current. A non-null data pointer that is not aligned increases the workspace of a convolution. Throws
  /// BackendError if cuDNN fails.
  std::optional<std::size_t> workspace_size(const FusedOp& op);
  /// Enqueues an operation that workspace_size() accepted; the device's card must be current. Repeated runs give the
  /// same bits.
  void run(const FusedOp& op, void* workspace, cudaStream_t stream, KernelLoader& loader);

 private:
  // `plan` is empty if cuDNN has no engine.
  struct Entry {
    bool channels_last = false;
    bool has_run = false;
    std::optional<CudnnPlan> plan;
  };
  bool is_ready();
  Entry& entry_of(const Convolution& convolution, const FusedOp& op);
  Entry make(const Convolution& convolution, const FusedOp& op);
  void execute(Entry& entry, const std::array<void*, 3>& data, void* workspace, cudaStream_t stream);

  const int device_;
  const int capability_;
  const bool tf32_;
  IssueMutex& issue_mutex_;
  RankedMutex<LockRank::cuda_fused> mutex_;
  // Guarded by the mutex:
  bool asked_ = false;  // is_ready() was called; handle_ stays null if there is no cuDNN for this card
  CudnnHandle handle_;
  std::map<std::vector<std::int64_t>, Entry> entries_;
};

}  // namespace lockstep::gpu
