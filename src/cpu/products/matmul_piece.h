// Matrix products inside a piece of work.
#pragma once

#include "runtime/backend.h"

namespace lockstep::host {

/// Computes one float32 or float64 product on this thread; ignores `batch`. The function that divided the work into
/// pieces must hold a LibraryUse.
void matmul_piece(const Matmul& matmul);

}  // namespace lockstep::host
