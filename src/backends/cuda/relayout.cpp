#include "backends/cuda/relayout.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include <lockstep/core/divisor.h>
#include <lockstep/core/float16.h>

namespace lockstep::gpu {
namespace {

constexpr int kBlock = 256;
constexpr int kMaxDims = 5;

// The arguments of the kernel. Dimensions are sorted by the stride of the written tensor, largest first, so that writes
// are sequential. The arrays begin with dimensions of size 1 if the tensor has fewer than kMaxDims.
template <class T>
struct Walk {
  const T* from;
  T* to;
  const T* bias;
  Divisor sizes[kMaxDims] = {};
  std::int64_t from_strides[kMaxDims] = {}, to_strides[kMaxDims] = {}, bias_strides[kMaxDims] = {};
  std::int64_t count = 0;
};

template <class T>
__global__ void __launch_bounds__(kBlock, 8) relayout_kernel(const __grid_constant__ Walk<T> walk) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < walk.count; i += step) {
    std::int64_t rest = i, from = 0, to = 0, bias = 0;
    for (int dim = kMaxDims - 1; dim >= 0; --dim) {
      const std::int64_t whole = walk.sizes[dim].quotient(rest), at = rest - whole * walk.sizes[dim].divisor();
      rest = whole;
      from += at * walk.from_strides[dim];
      to += at * walk.to_strides[dim];
      bias += at * walk.bias_strides[dim];
    }
    const T value = walk.from[from];
    walk.to[to] = walk.bias ? T(A(value) + A(walk.bias[bias])) : value;
  }
}

template <class T>
cudaError_t relayout_as(const Relayout& what, cudaStream_t stream, KernelLoader& loader) {
  const int rank = what.sizes.rank();
  std::array<int, kMaxDims> order;
  std::iota(order.begin(), order.begin() + rank, 0);
  std::stable_sort(order.begin(), order.begin() + rank,
                   [&](int a, int b) { return what.to_strides[a] > what.to_strides[b]; });
  Walk<T> walk = {static_cast<const T*>(what.from), static_cast<T*>(what.to), static_cast<const T*>(what.bias)};
  std::fill_n(walk.sizes, kMaxDims, Divisor(1));
  for (int i = 0; i < rank; ++i) {
    const int dim = order[std::size_t(i)], place = kMaxDims - rank + i;
    walk.sizes[place] = Divisor(what.sizes[dim]);
    walk.from_strides[place] = what.from_strides[dim];
    walk.to_strides[place] = what.to_strides[dim];
    walk.bias_strides[place] = dim == 1 ? what.bias_stride : 0;
  }
  walk.count = what.sizes.elements();
  cudaLaunchConfig_t config = {};
  config.gridDim = unsigned(std::min<std::int64_t>((walk.count + kBlock - 1) / kBlock, 1 << 14));
  config.blockDim = kBlock;
  config.stream = stream;
  loader.load(reinterpret_cast<const void*>(relayout_kernel<T>));
  return cudaLaunchKernelEx(&config, relayout_kernel<T>, walk);
}

}  // namespace

cudaError_t relayout(const Relayout& what, DType dtype, cudaStream_t stream, KernelLoader& loader) {
  switch (dtype) {
    case kFloat16: return relayout_as<Half>(what, stream, loader);
    case kBFloat16: return relayout_as<BFloat16>(what, stream, loader);
    case kFloat32: return relayout_as<float>(what, stream, loader);
    case kFloat64: return relayout_as<double>(what, stream, loader);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace lockstep::gpu
