// The rows of a batch that this thread works on, and random numbers that do not depend on how the batch is sharded.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/core/shape.h>
#include <lockstep/tensor/random.h>

namespace lockstep {

/// Rows [first, first + count) of the `total` rows of a batch, along dimension `dim` of its tensors.
struct BatchShard {
  std::int64_t dim = 0;
  std::int64_t first = 0;  ///< The first row.
  std::int64_t count = 0;  ///< The number of rows.
  std::int64_t total = 0;  ///< Rows of the whole batch.
};

/// The position of a shard's elements in the tensor of the whole batch, both in row-major order: element i of the shard
/// is element first + i / run * stride + i % run of the whole.
struct BatchPlace {
  std::int64_t first = 0;   ///< The position of the shard's element 0.
  std::int64_t run = 0;     ///< The number of neighbouring elements that are neighbours in the whole too.
  std::int64_t stride = 0;  ///< The distance between the beginnings of runs in the whole.
};

/// The position in the batch of a tensor that this thread computed from its shard: a tensor whose size along the
/// batch's dimension is a multiple of the shard's rows (for example after the batch was flattened with later
/// dimensions). Any other tensor, and every tensor outside of replicas, counts as the tensor of the whole batch.
LOCKSTEP_API BatchPlace place_in_batch(const Shape& sizes);

/// For a scope, declares that tensors computed by this thread have the batch along dimension `dim`, even if
/// DataParallel split another dimension. Without a `dim`, the tensors have no batch dimension. Use it in code that
/// permutes its input before dropout() and the like:
///
///   const BatchDim second(1);                        // x: [batch, steps, features], divided along dimension 0
///   return dropout(x.transpose(0, 1)).transpose(0, 1);
///
/// Layers that know their batch's dimension (recurrent layers, attention, transformers, dropout of channels) do this
/// themselves. Scopes must end in the reverse order of their beginning, on the same thread.
class LOCKSTEP_API BatchDim {
 public:
  explicit BatchDim(std::optional<std::int64_t> dim);
  ~BatchDim();
  BatchDim(const BatchDim&) = delete;
  BatchDim& operator=(const BatchDim&) = delete;

 private:
  const BatchShard* const outer_;  // null outside of replicas
  BatchShard shard_;
};

/// Makes one draw from the caller's sequence of random numbers, and returns the start of a new sequence that the draw
/// determines. The n-th call returns the same start in all replicas of a pass, and on a single device. So random
/// numbers that are keyed on an element's position in the whole batch are the same on any number of devices.
LOCKSTEP_API GeneratorState draw_for_batch();

}  // namespace lockstep
