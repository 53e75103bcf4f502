// The dtype in which an operation made of several keeps what lies between them: 16-bit floats overflow at 65504, or
// have eight bits, and are rounded once, at the end.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

inline DType wide_dtype(DType dtype) { return is_floating(dtype) && size_of(dtype) < 4 ? kFloat32 : dtype; }

/// Differentiable; x itself where it is wide enough.
inline Tensor widened(const Tensor& x) { return x.to(wide_dtype(x.dtype())); }

}  // namespace lockstep
