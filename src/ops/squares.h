// The sum of squares over dimensions, for norms and variances.
#pragma once

#include <lockstep/tensor/tensor.h>

#include "kernels/reduce/reduce.h"

namespace lockstep {

enum class Finish : std::uint8_t { none, root };

/// scale * sum(x^2), or its square root. Floating dtypes only. Not recorded.
Tensor sum_squares(const char* op, const Tensor& x, const DimMask& mask, bool keep_dims, double scale, Finish finish);

}  // namespace lockstep
