#pragma once

#include <lockstep/kernels/geometry.h>

#include "tensor/tensor_impl.h"

namespace lockstep {

/// The bytes that a tensor covers. The result is exact if the tensor has dense rows at equal distances; for other
/// layouts it is the range from the first byte to the last.
Region region_of(const TensorImpl& tensor);

}  // namespace lockstep
