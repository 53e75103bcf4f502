// How CUDA is called: every result is checked here, every handle is owned, and a thread's card is made current.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "core/ranked_mutex.h"

namespace lockstep::gpu {

/// Held while collectives are issued, and by what must not come between their ranks (CudaBackend).
using IssuingMutex = RankedMutex<LockRank::cuda_issuing>;

/// Throws BackendError with the call's name, its code and text, and the device as users count them (-1: unknown),
/// unless it succeeded. A failure does not stay behind as CUDA's "last error", where a later launch would find it.
void check(cudaError_t result, const char* api, int device);
void check(cublasStatus_t result, const char* api, int device);
/// The same for what is about a card, by CUDA's number.
void check_card(cudaError_t result, const char* api, int card);

/// Whether what was asked for has ended. Throws as check() does.
bool has_ended(cudaError_t query, const char* api, int device);

/// Makes a card current for this thread, and leaves it so: most threads use one card all their life. For calls that
/// launch, allocate or make something; where the card is current already, no driver is asked.
void use_card(int card);
/// For calls about a stream or an event, which any current card will do for: makes this one current if the thread has
/// never used one. (A thread begins with card 0, which is perhaps not ours. A context there takes half a gigabyte.)
void use_some_card(int card);

/// Destroying never throws: at the end of a process CUDA may be gone already.
template <auto destroy>
struct Destroy {
  void operator()(auto* handle) const noexcept { static_cast<void>(destroy(handle)); }
};

using OwnedStream = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using OwnedEvent = std::unique_ptr<CUevent_st, Destroy<cudaEventDestroy>>;
using OwnedMemory = std::unique_ptr<void, Destroy<cudaFree>>;
using OwnedPinned = std::unique_ptr<void, Destroy<cudaFreeHost>>;

// Of the current card.
OwnedStream make_stream(int device, int priority);
OwnedEvent make_event(int device);
OwnedMemory make_memory(int device, std::size_t bytes);

}  // namespace lockstep::gpu
