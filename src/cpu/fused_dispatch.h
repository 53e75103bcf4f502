// Fused operations on the host, offered by the CPU and simulated backends. One file per kind of operation. Safe from
// any thread.
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/backend.h"

namespace lockstep::host {

/// Returns true if the elements are dense in row-major order. The stride of a dimension of size 1 is arbitrary.
inline bool is_row_major(const FusedOperand& operand) noexcept {
  const Shape expected = contiguous_strides(operand.sizes);
  for (int i = 0; i < expected.rank(); ++i)
    if (operand.sizes[i] != 1 && operand.strides[i] != expected[i]) return false;
  return true;
}

/// Implement Backend::workspace_size and Backend::fused on the host. The result is complete on return.
std::optional<std::size_t> workspace_size(const FusedOp& op);
void fused(const KernelContext& context, const FusedOp& op, void* workspace);

// The functions of each kind of operation, which `workspace_size` and `fused` call.
std::optional<std::size_t> convolution_workspace_size(const FusedOp& op);
void convolution(const KernelContext& context, const FusedOp& op, void* workspace);
std::optional<std::size_t> attention_workspace_size(const FusedOp& op);
void attention(const KernelContext& context, const FusedOp& op);

std::optional<std::size_t> batch_norm_workspace_size(const FusedOp& op);
void batch_norm(const KernelContext& context, const FusedOp& op, void* workspace);

std::optional<std::size_t> lstm_workspace_size(const FusedOp& op);
void lstm(const KernelContext& context, const FusedOp& op, void* workspace);

}  // namespace lockstep::host
