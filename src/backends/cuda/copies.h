// Copies between devices, and between devices and the host. Copies of pageable memory go through pinned buffers.
#pragma once

#include "backends/cuda/cuda_stream.h"
#include "backends/cuda/pinned_cache.h"
#include "runtime/backend.h"

namespace lockstep::gpu {

/// Copies within a card or between two. Without peer access the driver stages the copy through host memory.
void copy_between_devices(const Copy& copy, int to_card, int from_card, CudaStream& stream);

/// Returns when the host's bytes have been read. Waits for the stream only if all pinned buffers are in use.
void copy_from_host(const Copy& copy, PinnedCache& pinned, CudaStream& stream, const Wait& wait);

/// From page-locked memory, by the card's DMA: the bytes are read in stream order.
void copy_from_pinned(const Copy& copy, CudaStream& stream);

/// Returns when the bytes have arrived in the host's memory.
void copy_to_host(const Copy& copy, PinnedCache& pinned, CudaStream& stream, const Wait& wait);

}  // namespace lockstep::gpu
