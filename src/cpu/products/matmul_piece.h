// Matrix products inside a piece of work.
#pragma once

#include "runtime/backend.h"

namespace lockstep::host {

/// Computes one float32 or float64 product on this thread; ignores `batch`. The caller's caller, which divided the
/// work, must hold a LibraryUse.
void matmul_piece(const Matmul& matmul);

}  // namespace lockstep::host
