// Helpers for calls of CUDA: they check results, own handles and set a thread's current card.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "core/ranked_mutex.h"

namespace lockstep::gpu {

/// Held while the ranks of a collective are launched, and by calls that must not run between these launches
/// (cuda_backend.cpp).
using IssueMutex = RankedMutex<LockRank::cuda_issue>;

/// Unless the result is success, throws BackendError with the call's name, its code and text, and the user's number of
/// the device (-1: unknown), and clears CUDA's "last error", so that no later launch reports it.
void check(cudaError_t result, const char* api, int device);
void check(cublasStatus_t result, const char* api, int device);
/// Like check(), but `card` is CUDA's number of the card.
void check_card(cudaError_t result, const char* api, int card);

/// Return true if the work of the stream, or before the event, has ended. Throw as check() does.
bool has_ended(cudaStream_t stream, int device);
bool has_ended(cudaEvent_t event, int device);
/// Returns false if an allocation failed for lack of memory. Throws as check() does for other failures.
bool has_room(cudaError_t allocation, const char* api, int device);

/// Makes a card current on this thread, and leaves it current, because most threads always use one card. For calls that
/// launch, allocate or create. Does not call the driver if the card is already current.
void use_card(int card);
/// For calls about a stream or an event, which work with any current card. Makes this card current only if the thread
/// has never used a card. (A thread starts with card 0; if that card is not ours, a context there would waste half a
/// gigabyte.)
void use_some_card(int card);

/// Destroys a handle and ignores errors: at process exit CUDA may be gone already.
template <auto destroy>
struct Destroy {
  void operator()(auto* handle) const noexcept { static_cast<void>(destroy(handle)); }
};

using OwnedStream = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using OwnedEvent = std::unique_ptr<CUevent_st, Destroy<cudaEventDestroy>>;
using OwnedMemory = std::unique_ptr<void, Destroy<cudaFree>>;
using OwnedPinned = std::unique_ptr<void, Destroy<cudaFreeHost>>;

// These functions create the object on the current card.
OwnedStream make_stream(int device, int priority);
OwnedEvent make_event(int device);
OwnedMemory make_memory(int device, std::size_t bytes);

}  // namespace lockstep::gpu
