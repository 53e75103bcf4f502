#pragma once

#include <lockstep/tensor/kernels/geometry.h>

#include "tensor/tensor_impl.h"

namespace lockstep {

/// The bytes a tensor covers: exact for dense rows at one pitch, else everything from its first byte to its last.
Region region_of(const TensorImpl& tensor) noexcept;

}  // namespace lockstep
