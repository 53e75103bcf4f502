// Checks of tensors that hold indices.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// As int64. Throws DTypeError naming `op` unless it is int32 or int64.
Tensor as_index(const char* op, const Tensor& index);

/// Checks 0 <= index < size, or that it is `ignored`: at once on the CPU, else as an error of the device's stream. A
/// kernel that comes after must still not use an index that is out of range.
void check_index(const char* op, const Tensor& index, std::int64_t size, std::optional<std::int64_t> ignored = {});

}  // namespace lockstep
