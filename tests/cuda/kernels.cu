// Kernels whose PTX check_ptx reads: the elementwise pattern in packs, dense and broadcast, with and without
// conversions; sums of rows and of many tensors; and the kernels of norms.
#include "kernels/map/map.h"
#include "kernels/reduce/multi_reduce.h"
#include "kernels/reduce/reduce.h"
#include "kernels/transpose/transpose.h"
#include "ops/batch_norm_kernel.h"
#include "ops/norm_gradient.h"

#include <lockstep/kernels/cuda/map.h>
#include <lockstep/kernels/cuda/reduce.h>

namespace lockstep::gpu {

struct Add {
  LOCKSTEP_HD float operator()(float a, float b) const { return a + b; }
};
struct Same {
  LOCKSTEP_HD float operator()(float a) const { return a; }
};

template __global__ void map_dense<4, Add, float, float, float>(Add, float*, std::int64_t, const float*, const float*);
template __global__ void map_dense<8, Add, Half, Half, Half>(Add, Half*, std::int64_t, const Half*, const Half*);
template __global__ void map_dense<4, Same, BFloat16, float>(Same, BFloat16*, std::int64_t, const float*);
template __global__ void map_dense<4, Same, float, BFloat16>(Same, float*, std::int64_t, const BFloat16*);

template __global__ void map_packs<4, Add, float, float, float>(Add, Walk<3>, std::int64_t, unsigned, float*,
                                                                const float*, const float*);
template __global__ void map_packs<8, Add, Half, Half, Half>(Add, Walk<3>, std::int64_t, unsigned, Half*, const Half*,
                                                             const Half*);

template __global__ void map_strided<Add, float, float, float>(Add, Walk<3>, std::int64_t, float*, const float*,
                                                               const float*);

struct Total {
  using Accumulator = float;
  LOCKSTEP_HD float identity() const { return 0; }
  LOCKSTEP_HD float load(float x) const { return x; }
  LOCKSTEP_HD float combine(float a, float b) const { return a + b; }
  LOCKSTEP_HD float finish(float a, std::int64_t) const { return a; }
};
template __global__ void reduce_dense_rows<Team::whole_block, 4, Total, float, float>(Total, ReductionSplit,
                                                                                      const float*, Walk<2>,
                                                                                      ReductionOutput<Total, float>);
template __global__ void reduce_dense_rows<Team::one_warp, 8, Total, Half, Half>(Total, ReductionSplit, const Half*,
                                                                                 Walk<2>, ReductionOutput<Total, Half>);
template __global__ void reduce_rows<Team::one_warp, Total, float, float>(Total, ReductionSplit, ReductionInput<float>,
                                                                          ReductionOutput<Total, float>);
template __global__ void reduce_columns<Total, float, float>(Total, ReductionSplit, const float*, std::int64_t,
                                                             ReductionOutput<Total, float>);
template __global__ void reduce_partial<Total, float>(Total, ReductionSplit, Walk<2>, ReductionOutput<Total, float>);

struct Squares {
  LOCKSTEP_HD CompensatedSum identity() const { return {}; }
  LOCKSTEP_HD double load(double x) const { return x * x; }
  LOCKSTEP_HD CompensatedSum combine(CompensatedSum a, CompensatedSum b) const { return a + b; }
};
template __global__ void multi_reduce_pieces<Squares, float>(Squares, PieceTable<ReducedTensor<float>>,
                                                             CompensatedSum*);

template __global__ void norm_gradient_packs<4, 2>(NormGradientKernel<float, true>, TeamShape);
template __global__ void norm_gradient_packs<4, 8>(NormGradientKernel<float, true>, TeamShape);
template __global__ void norm_gradient_packs<8, 4>(NormGradientKernel<BFloat16, true>, TeamShape);
template __global__ void norm_gradient_packs<8, 4>(NormGradientKernel<Half, true>, TeamShape);

template __global__ void transpose_tiles(std::uint32_t*, const std::uint32_t*, std::int64_t, std::int64_t, std::int64_t,
                                         std::int64_t, Walk<2>, Divisor, Divisor, std::int64_t);
template __global__ void transpose_tiles(std::uint16_t*, const std::uint16_t*, std::int64_t, std::int64_t, std::int64_t,
                                         std::int64_t, Walk<2>, Divisor, Divisor, std::int64_t);

template __global__ void channel_sums<true, 4>(BatchStatisticsKernel<float>, Divisor, Divisor);
template __global__ void channel_sums<false, 8>(BatchStatisticsKernel<Half>, Divisor, Divisor);
template __global__ void channel_sums<true, 8>(BatchGradientKernel<Half>, Divisor, Divisor);
template __global__ void channel_sums<false, 4>(BatchGradientKernel<float>, Divisor, Divisor);

}  // namespace lockstep::gpu
