// One matrix product on one thread. To use the caches, k is divided into blocks of terms, and the columns of b into
// panels as wide as a tile (tiles.h).
#pragma once

#include "cpu/products/tiles.h"
#include "runtime/backend.h"

namespace lockstep::host {

/// c = activation(alpha op(a) op(b) + beta c (+ bias)) for float or double, with the sizes, pitches and options of `p`.
/// An element's bits depend only on its row of a, its column of b, and k: rows and columns may be divided anywhere.
template <class T>
void blocked_product(const Matmul& p, const T* a, const T* b, T* c, const T* bias,
                     const TileKernels<T>& kernels = tile_kernels<T>());

}  // namespace lockstep::host
