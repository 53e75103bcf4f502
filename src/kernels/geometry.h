#pragma once

#include <lockstep/kernels/geometry.h>

#include "tensor/tensor_impl.h"

namespace lockstep {

/// The bytes that a tensor covers. Exact for dense rows at one pitch; for other layouts, all bytes from first to last.
Region region_of(const TensorImpl& tensor);

}  // namespace lockstep
