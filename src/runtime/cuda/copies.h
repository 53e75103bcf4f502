// Copies between devices, and between a device and the host: of pageable memory through pinned buffers.
#pragma once

#include "runtime/backend.h"
#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda/pinned_cache.h"

namespace lockstep::gpu {

/// On one card or between two; where a card cannot reach the other's memory, the driver goes through the host's.
void copy_between_devices(const Copy& copy, int to_card, int from_card, CudaStream& stream);

/// The bytes have been taken when this returns; nothing waits for the stream, unless very much is on its way.
void copy_from_host(const Copy& copy, PinnedCache& pinned, CudaStream& stream, const Wait& wait);

/// From page-locked memory, by the card itself: the bytes are taken in the order of the stream.
void copy_from_pinned(const Copy& copy, CudaStream& stream);

/// The bytes have been delivered when this returns.
void copy_to_host(const Copy& copy, PinnedCache& pinned, CudaStream& stream, const Wait& wait);

}  // namespace lockstep::gpu
