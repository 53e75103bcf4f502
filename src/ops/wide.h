// The dtype of intermediate results of composed operations: 16-bit floats overflow at 65504 (float16) or have only 8
// bits of precision (bfloat16), so they become float32 and are rounded once, at the end.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

inline DType wide_dtype(DType dtype) { return is_floating(dtype) && size_of(dtype) < 4 ? kFloat32 : dtype; }

/// Converts to the wide dtype; x itself if it is wide enough. Differentiable.
inline Tensor widened(const Tensor& x) { return x.to(wide_dtype(x.dtype())); }

}  // namespace lockstep
