// Kernels whose PTX check_ptx reads: the dense form of the elementwise pattern, with and without conversions.
#include "tensor/kernels/map.h"

#include <lockstep/tensor/kernels/cuda/map.h>

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

}  // namespace lockstep::gpu
