// The check for operations that need a floating dtype.
#pragma once

#include <lockstep/core/error.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

/// Throws DTypeError naming `op`.
inline void check_floating(const char* op, const Tensor& x) {
  if (!is_floating(impl_of(op, x).dtype))
    throw DTypeError(text("[", op, "] expected a floating dtype, got ", x.dtype()));
}

}  // namespace lockstep
