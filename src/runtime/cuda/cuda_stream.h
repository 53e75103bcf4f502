// A stream, and what work on it shares: one body at a time is enqueued, and so may use the stream's workspaces.
#pragma once

#include <memory>
#include <mutex>

#include "runtime/backend.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/matmul_plans.h"

namespace lockstep::gpu {

struct CudaStream {
  int device;
  int card;
  OwnedMemory workspace;  ///< Of kernels. Before the stream, which is destroyed first.
  OwnedStream stream;
  std::mutex mutex;                      ///< Held while kernels or products are enqueued.
  std::unique_ptr<MatmulPlans> matmuls;  ///< Made for the first product.
};

inline CudaStream& stream_of(const StreamHandle& handle) { return *static_cast<CudaStream*>(handle.native); }

}  // namespace lockstep::gpu
