// Whether a tensor can be written in place: its elements must not share memory with others that matter.
#pragma once

#include "tensor/tensor_impl.h"

namespace lockstep {

/// Whether elements of `written` share memory with each other, as in an expanded view.
bool overlaps_itself(const TensorImpl& written) noexcept;

/// Whether elements of `written` share memory with elements of `read` in other places. Exact unless strides divide
/// each other so badly that it would take too long; true then.
bool overlaps_elsewhere(const TensorImpl& written, const TensorImpl& read) noexcept;

}  // namespace lockstep
