#pragma once

#include <lockstep/kernels/geometry.h>

#include "tensor/tensor_impl.h"

namespace lockstep {

/// The bytes that a tensor covers: exact for dense rows at one pitch, else all bytes from its first to its last.
Region region_of(const TensorImpl& tensor) noexcept;

}  // namespace lockstep
