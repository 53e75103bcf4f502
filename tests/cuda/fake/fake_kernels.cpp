// The backend's two kernels, as the host computes them.
#include "fake/fake_cuda.h"
#include "runtime/cuda/kernels.h"
#include "runtime/host/parallel.h"
#include "runtime/host/reduce_ranks.h"

namespace lockstep::gpu {

cudaError_t reduce_ranks(const RankReduction& of, DType dtype, ReduceOp op, cudaStream_t stream) {
  host::RankReduction reduction;
  reduction.count = of.count;
  reduction.sources.assign(of.sources.begin(), of.sources.begin() + of.source_count);
  reduction.targets.assign(of.targets.begin(), of.targets.begin() + of.target_count);
  fake::enqueue(stream, [=] {
    for (const void* memory : reduction.sources) fake::expect_memory("reduce", memory, of.count * size_of(dtype));
    for (const void* memory : reduction.targets) fake::expect_memory("reduce", memory, of.count * size_of(dtype));
    host::reduce_ranks(reduction, dtype, op, 0, of.count);
  });
  return cudaSuccess;
}

cudaError_t product_of_nothing(const Matmul& matmul, cudaStream_t stream) {
  fake::enqueue(stream, [=] { host::matmul({}, matmul); });
  return cudaSuccess;
}

}  // namespace lockstep::gpu
