// Collectives in NCCL's words. Pure of state.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "runtime/backend.h"

namespace lockstep::gpu {

/// Non-blocking communicators answer that a call is in progress, which is no error.
inline bool is_wrong(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

/// What one rank does in a collective, inside a group of all ranks. A barrier is not NCCL's.
ncclResult_t enqueue_rank(const CollectiveCall& call, std::size_t rank, ncclComm_t comm, cudaStream_t stream);

}  // namespace lockstep::gpu
