// Random numbers for the elements of a batch. They do not depend on how many devices share the batch.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// Uniform numbers in [low, high) of x's shape, dtype and device, with 24 random bits. An element's number depends on
/// the caller's sequence and on the element's position in the whole batch (lockstep/tensor/batch_shard.h). Not
/// recorded.
Tensor uniform_for_batch(const char* op, const Tensor& x, double low, double high);

}  // namespace lockstep
