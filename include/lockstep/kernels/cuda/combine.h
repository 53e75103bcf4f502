// Combines the values of a team of threads, a warp or a block, in an order that depends on the team's size alone.
#pragma once

#include <lockstep/kernels/compensated_sum.h>
#include <lockstep/kernels/cuda/grid.h>

namespace lockstep::gpu {

enum class Team : int { one_warp = kWarp, whole_block = kThreads };

/// The value of the thread `by` lanes further in the warp.
template <class A>
__device__ A shuffle_down(A value, int by) {
  return A(__shfl_down_sync(0xffffffffu, value, by));
}
__device__ inline CompensatedSum shuffle_down(const CompensatedSum& value, int by) {
  return {shuffle_down(value.sum, by), shuffle_down(value.error, by)};
}

/// Combines the values of the threads of a warp, with a reducer as in reduce.h. All threads of the warp call this; its
/// first thread gets the result.
template <class R, class A>
__device__ A combine_warp(const R& reducer, A value) {
  for (int half = kWarp / 2; half > 0; half /= 2) value = reducer.combine(value, shuffle_down(value, half));
  return value;
}

/// Combines the values of the threads of a block. All threads of the block call this; its first thread gets the result.
template <class R, class A>
__device__ A combine_block(const R& reducer, A value) {
  __shared__ A of_warps[kWarps];
  const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  value = combine_warp(reducer, value);
  __syncthreads();  // waits until an earlier use of the shared memory has ended
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  if (warp == 0) value = combine_warp(reducer, lane < kWarps ? of_warps[lane] : A(reducer.identity()));
  return value;
}

template <Team kTeam, class R, class A>
__device__ A combine_team(const R& reducer, A value) {
  if constexpr (kTeam == Team::one_warp)
    return combine_warp(reducer, value);
  else
    return combine_block(reducer, value);
}

}  // namespace lockstep::gpu
