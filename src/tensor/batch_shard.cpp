#include <lockstep/tensor/batch_shard.h>

#include <utility>

#include "core/job_local.h"
#include "tensor/philox.h"

namespace lockstep {
namespace {

thread_local const BatchShardGuard* innermost = nullptr;
const JobLocal innermost_is_of_the_job([]() -> void* { return &innermost; }, innermost);

}  // namespace

BatchShardGuard::BatchShardGuard(const BatchShard& shard, Generator& generator) noexcept
    : shard_(shard), generator_(generator), outer_(std::exchange(innermost, this)) {}
BatchShardGuard::~BatchShardGuard() { innermost = outer_; }

BatchPlace place_in_batch(const Shape& sizes) {
  const std::int64_t elements = sizes.elements();
  const BatchPlace whole = {0, elements, elements};
  if (!innermost || elements == 0) return whole;
  const BatchShard& shard = innermost->shard_;
  const std::int64_t dim = shard.dim < 0 ? shard.dim + sizes.rank() : shard.dim;
  if (dim < 0 || dim >= sizes.rank() || shard.count == 0 || sizes[int(dim)] % shard.count != 0) return whole;
  std::int64_t run = elements;
  for (int i = 0; i < dim; ++i) run /= sizes[i];
  const std::int64_t row = run / shard.count;
  return {shard.first * row, run, shard.total * row};
}

Generator draw_for_batch() {
  const Generator at = innermost ? innermost->generator_ : draw(1);
  if (innermost) ++innermost->generator_.offset;
  return sequence_of(at);
}

}  // namespace lockstep
