#include "backends/cuda/kernels.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <lockstep/core/divisor.h>

#include "runtime/collectives/reduce_op.h"

namespace lockstep::gpu {
namespace {

constexpr int kThreads = 256;

cudaLaunchConfig_t grid_for(std::size_t items, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = unsigned(std::min<std::size_t>((items + kThreads - 1) / kThreads, 1 << 14));
  config.blockDim = kThreads;
  config.stream = stream;
  return config;
}

using rank_reduction::Accumulator;

template <class T, class Op>
__global__ void reduce_kernel(const __grid_constant__ RankReductionArgs reduction, Accumulator<T, Op> divisor) {
  using A = Accumulator<T, Op>;
  const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < reduction.count; i += step) {
    A value = A(static_cast<const T*>(reduction.sources[0])[i]);
    for (int rank = 1; rank < reduction.source_count; ++rank)
      value = Op::combine(value, A(static_cast<const T*>(reduction.sources[std::size_t(rank)])[i]));
    const T result = T(value / divisor);
    for (int rank = 0; rank < reduction.target_count; ++rank)
      static_cast<T*>(reduction.targets[std::size_t(rank)])[i] = result;
  }
}

template <class T, class Op>
cudaError_t reduce_with(const RankReductionArgs& reduction, int divisor, cudaStream_t stream) {
  const cudaLaunchConfig_t config = grid_for(reduction.count, stream);
  return cudaLaunchKernelEx(&config, reduce_kernel<T, Op>, reduction, Accumulator<T, Op>(divisor));
}

template <class T>
__global__ void epilogue_kernel(T* c, const T* bias, double beta, Activation activation, std::int64_t count,
                                const Divisor columns, std::int64_t ld) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const std::int64_t row = columns.quotient(i), column = i - row * columns.divisor();
    T& element = c[row * ld + column];
    const A kept = beta == 0 ? A(0) : A(beta) * A(element);  // with beta == 0, c may hold NaN
    element = T(activate(activation, bias ? kept + A(bias[column]) : kept));
  }
}

template <class T>
cudaError_t matmul_epilogue_as(const Matmul& matmul, cudaStream_t stream) {
  const cudaLaunchConfig_t config = grid_for(std::size_t(matmul.m * matmul.n), stream);
  for (std::int64_t batch = 0; batch < matmul.batch; ++batch) {
    T* const c = static_cast<T*>(matmul.c) + batch * matmul.stride_c;
    const cudaError_t error =
        cudaLaunchKernelEx(&config, epilogue_kernel<T>, c, static_cast<const T*>(matmul.bias), matmul.beta,
                           matmul.activation, matmul.m * matmul.n, Divisor(matmul.n), matmul.ldc);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t reduce_ranks(const RankReductionArgs& reduction, DType dtype, ReduceOp op, cudaStream_t stream) {
  if (reduction.count == 0) return cudaSuccess;
  const int divisor = op == ReduceOp::mean ? reduction.source_count : 1;
  return rank_reduction::visit(dtype, op,
                               [&]<class T, class Op>() { return reduce_with<T, Op>(reduction, divisor, stream); });
}

cudaError_t matmul_epilogue(const Matmul& matmul, cudaStream_t stream) {
  switch (matmul.output()) {
    case kFloat16: return matmul_epilogue_as<Half>(matmul, stream);
    case kBFloat16: return matmul_epilogue_as<BFloat16>(matmul, stream);
    case kFloat32: return matmul_epilogue_as<float>(matmul, stream);
    default: return matmul_epilogue_as<double>(matmul, stream);
  }
}

}  // namespace lockstep::gpu
