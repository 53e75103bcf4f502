// The heavy operations on the host: what the CPU and simulated backends offer. One file for each kind of operation.
// Safe from any thread.
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/backend.h"

namespace lockstep::host {

/// Whether the elements lie densely in row-major order. Dimensions of size 1 have any stride.
inline bool is_row_major(const FusedOperand& operand) noexcept {
  const Shape expected = contiguous_strides(operand.sizes);
  for (int i = 0; i < expected.rank(); ++i)
    if (operand.sizes[i] != 1 && operand.strides[i] != expected[i]) return false;
  return true;
}

/// As Backend::offers and Backend::fused; computed before it returns.
std::optional<std::size_t> offers(const FusedOp& op);
void fused(const KernelContext& context, const FusedOp& op, void* workspace);

// Each kind, of which `offers` and `fused` choose.
std::optional<std::size_t> offers_convolution(const FusedOp& op);
void convolution(const KernelContext& context, const FusedOp& op, void* workspace);
std::optional<std::size_t> offers_attention(const FusedOp& op);
void attention(const KernelContext& context, const FusedOp& op);

std::optional<std::size_t> offers_batch_norm(const FusedOp& op);
void batch_norm(const KernelContext& context, const FusedOp& op, void* workspace);

std::optional<std::size_t> offers_lstm(const FusedOp& op);
void lstm(const KernelContext& context, const FusedOp& op, void* workspace);

}  // namespace lockstep::host
