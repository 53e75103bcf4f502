// Matrix products inside of a piece of work.
#pragma once

#include "runtime/backend.h"

namespace lockstep::host {

/// One float32 or float64 product on this thread, `batch` not looked at. Whoever divided the work holds a LibraryUse.
void matmul_piece(const Matmul& matmul);

}  // namespace lockstep::host
