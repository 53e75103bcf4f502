#include <lockstep/tensor/batch_shard.h>

#include "core/context.h"
#include "tensor/philox.h"
#include "tensor/replay_values.h"

namespace lockstep {

BatchPlace place_in_batch(const Shape& sizes) {
  const std::int64_t elements = sizes.elements();
  const BatchPlace whole = {0, elements, elements};
  if (!context().shard || elements == 0) return whole;
  const BatchShard& shard = *context().shard;
  const std::int64_t dim = shard.dim < 0 ? shard.dim + sizes.rank() : shard.dim;
  if (dim < 0 || dim >= sizes.rank() || shard.count == 0 || sizes[int(dim)] % shard.count != 0) return whole;
  std::int64_t run = elements;
  for (int i = 0; i < dim; ++i) run /= sizes[i];
  const std::int64_t row = run / shard.count;
  return {shard.first * row, run, shard.total * row};
}

BatchDim::BatchDim(std::optional<std::int64_t> dim) : outer_(context().shard) {
  if (!outer_) return;
  shard_ = *outer_;
  if (dim)
    shard_.dim = *dim;
  else
    shard_.count = 0;
  context().shard = &shard_;
}

BatchDim::~BatchDim() { context().shard = outer_; }

GeneratorState draw_point_for_batch() {
  GeneratorState* const shared = context().batch_generator;
  const GeneratorState at = shared ? *shared : draw(1);
  if (shared) ++shared->offset;
  return at;
}

GeneratorState draw_for_batch() { return sequence_of(draw_point_for_batch()); }

}  // namespace lockstep
