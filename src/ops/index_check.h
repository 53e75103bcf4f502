// Checks of tensors that hold indices.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Converts to int64. Throws DTypeError naming `op` unless index is int32 or int64.
Tensor as_index(const char* op, const Tensor& index);

/// Checks that 0 <= index < size, or that index is `ignored`: throws at once on the CPU; on other devices the stream
/// gets the error. Kernels that follow must still not use an index out of range.
void check_index(const char* op, const Tensor& index, std::int64_t size, std::optional<std::int64_t> ignored = {});

}  // namespace lockstep
