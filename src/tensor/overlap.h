// Checks before in-place writes: the written elements must not share memory with each other or with elements that are
// still to be read.
#pragma once

#include "tensor/tensor_impl.h"

namespace lockstep {

/// True if elements of `written` share memory with each other, as in an expanded view.
bool overlaps_itself(const TensorImpl& written) noexcept;

/// True if an element of `written` shares memory with an element of `read` at another index. Exact, except that the
/// result is true if the search over unusual strides takes too long.
bool overlaps_elsewhere(const TensorImpl& written, const TensorImpl& read) noexcept;

}  // namespace lockstep
