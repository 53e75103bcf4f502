// The heavy operations on the host: what the CPU and simulated backends offer. One file for each kind of operation.
// Safe from any thread.
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/backend.h"

namespace lockstep::host {

/// As Backend::offers and Backend::fused; computed before it returns.
std::optional<std::size_t> offers(const FusedOp& op);
void fused(const KernelContext& context, const FusedOp& op, void* workspace);

// Each kind, of which `offers` and `fused` choose.
std::optional<std::size_t> offers_convolution(const FusedOp& op);
void convolution(const KernelContext& context, const FusedOp& op, void* workspace);

}  // namespace lockstep::host
