// Collectives in NCCL's words. Pure of state.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "runtime/backend.h"
#include "runtime/cuda/vendor_tables.h"

namespace lockstep::gpu {

/// Non-blocking communicators answer that a call is in progress, which is no error.
inline bool is_wrong(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

/// The first with communicators that do not block. From there on a library older than the headers will do: it reads as
/// much of a longer configuration as it knows (parseCommConfig in NCCL's src/init.cc of 2.14.3 and later).
constexpr int kOldestNccl = NCCL_VERSION(2, 14, 0);

/// Throws BackendError of "ncclGetVersion" if the library is older than that, or, as nccl() does, cannot be loaded.
void check_nccl_version();

/// What one rank does in a collective, inside a group of all ranks. A barrier is not NCCL's.
ncclResult_t enqueue_rank(const CollectiveCall& call, std::size_t rank, ncclComm_t comm, cudaStream_t stream);

}  // namespace lockstep::gpu
