// A tensor laid out anew, and a bias added to images: what cuDNN's engines leave to be done. The kernels write memory
// in its order. Safe from any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <lockstep/core/dtype.h>
#include <lockstep/core/shape.h>

#include "runtime/backend.h"

namespace lockstep::gpu {

/// to[i] = from[i] (+ bias[i's second index]), of up to five dimensions. `from` and `to` may be the same with the same
/// strides; else they do not overlap. Strides in elements; those of `from` may be 0.
struct Relayout {
  const void* from = nullptr;
  void* to = nullptr;
  Shape sizes, from_strides, to_strides;
  const void* bias = nullptr;
  std::int64_t bias_stride = 1;
};

/// Of floating-point elements. Throws nothing itself: what CUDA says is returned.
cudaError_t relayout(const Relayout& what, DType dtype, cudaStream_t stream, KernelLoader& loader);

}  // namespace lockstep::gpu
