// Translates collectives into NCCL calls. Stateless.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "backends/cuda/vendor_tables.h"
#include "runtime/backend.h"

namespace lockstep::gpu {

/// A non-blocking communicator may return ncclInProgress, which is not an error.
inline bool is_nccl_error(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

/// The first version in which each group has its own job object. Up to 2.26 each thread had one (ncclGroupJobMain in
/// NCCL's src/group.cc), and the second of two non-blocking communicators overwrote it. Since then a library may be
/// older than the headers: it reads only the part of a configuration that it knows (parseCommConfig in init.cc).
constexpr int kOldestNccl = NCCL_VERSION(2, 27, 3);

/// Call this before NCCL is used, and not while other threads read the environment. Sets options that NCCL reads only
/// from the environment (ncclConfig_t of 2.28 has no field for them), unless the user has set them, and reports them
/// once on standard error: NCCL_LAUNCH_ORDER_IMPLICIT=1, so that the communicators of a process launch in one order on
/// every card, and, if `deterministic`, NCCL_NVLS_ENABLE=0. The library changes no other variable.
/// Only with `says`.
void set_nccl_environment(bool deterministic, bool says);

/// Throws BackendError of "ncclGetVersion" if the library is older than kOldestNccl, or if it cannot be loaded.
void check_nccl_version();

/// Enqueues one rank's part of a collective, inside a group of all ranks. A barrier is not one of NCCL's operations.
ncclResult_t enqueue_rank(const CollectiveCall& call, std::size_t rank, ncclComm_t comm, cudaStream_t stream);

}  // namespace lockstep::gpu
