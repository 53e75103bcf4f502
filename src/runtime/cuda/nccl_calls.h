// Collectives in NCCL's words. Pure of state.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "runtime/backend.h"
#include "runtime/cuda/vendor_tables.h"

namespace lockstep::gpu {

/// Non-blocking communicators answer that a call is in progress, which is no error.
inline bool is_wrong(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

/// The first whose group jobs are objects of their own. Before, a thread had one (ncclGroupJobMain in NCCL's
/// src/group.cc up to 2.26), which the second of two communicators that do not block overwrote. From there on a library
/// older than the headers will do: it reads as much of a longer configuration as it knows (parseCommConfig in init.cc).
constexpr int kOldestNccl = NCCL_VERSION(2, 27, 3);

/// Before NCCL is used. Sets what NCCL can only be told by its environment (ncclConfig_t of 2.28 has no field for it),
/// unless the user has, and says so, once, on standard error: NCCL_LAUNCH_ORDER_IMPLICIT=1, with which communicators of
/// one process launch in one order on every card, and where repeated runs are to give the same bits NCCL_NVLS_ENABLE=0.
/// Nothing else in the library changes the environment. Not to be called while other threads read it.
void settle_nccl_environment(bool deterministic);

/// Throws BackendError of "ncclGetVersion" if the library is older than that, or, as nccl() does, cannot be loaded.
void check_nccl_version();

/// What one rank does in a collective, inside a group of all ranks. A barrier is not NCCL's.
ncclResult_t enqueue_rank(const CollectiveCall& call, std::size_t rank, ncclComm_t comm, cudaStream_t stream);

}  // namespace lockstep::gpu
