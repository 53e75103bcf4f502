// group_norm with its own kernels, for devices that launch grids.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// x: checked, not empty. weight, bias: [channels], or undefined.
Tensor group_norm_by_grids(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps);

}  // namespace lockstep
