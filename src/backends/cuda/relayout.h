// Copies a tensor into other strides, and adds a bias to images, which cuDNN's engines do not do. The kernels write
// memory sequentially. Safe from any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <lockstep/core/dtype.h>
#include <lockstep/core/shape.h>

#include "runtime/backend.h"

namespace lockstep::gpu {

/// to[i] = from[i] (+ bias[i's second index]), for up to five dimensions. `from` and `to` may be the same memory with
/// the same strides; other overlaps are not allowed. Strides are in elements; strides of `from` may be 0.
struct Relayout {
  const void* from = nullptr;
  void* to = nullptr;
  Shape sizes, from_strides, to_strides;
  const void* bias = nullptr;
  std::int64_t bias_stride = 1;
};

/// For floating-point elements. Returns CUDA's error code; throws nothing.
cudaError_t relayout(const Relayout& what, DType dtype, cudaStream_t stream, KernelLoader& loader);

}  // namespace lockstep::gpu
