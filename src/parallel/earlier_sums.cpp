// The sums of earlier backwards, to which further backwards add. A bucket sets its earlier sum aside while backwards
// run; after the next reduction each device adds the earlier sum to the new one, for the elements that it keeps. So
// gradients are always added first over replicas, then over backwards, with and without sharding.
#include <algorithm>

#include <lockstep/autograd/grad_mode.h>

#include "parallel/gradient_buckets_impl.h"
#include "tensor/copy.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

using autograd::ShardRange;

Tensor part(const Tensor& flat, std::int64_t begin, std::int64_t end) {
  return make_view(flat, {end - begin}, {1}, flat.impl()->offset + begin);
}

// Calls f(begin, end) for the ranges of elements of those parameters in the bucket for which holds(entry) is true, as
// far as they lie inside `own`. Adjacent parameters are joined to one range.
void for_each_range(const GradientBucket& bucket, ShardRange own, const auto& holds, const auto& f) {
  ShardRange range = {own.begin, own.begin};
  const auto end_range = [&] {
    if (range.size() > 0) f(range.begin, range.end);
  };
  for (std::size_t i = 0; i < bucket.entries.size(); ++i) {
    if (!holds(bucket.entries[i])) continue;
    const bool is_last = i + 1 == bucket.entries.size();
    const std::int64_t begin = std::max(bucket.begins[i], own.begin);
    const std::int64_t end = std::min(is_last ? bucket.flats[0].numel() : bucket.begins[i + 1], own.end);
    if (begin >= end) continue;
    if (begin != range.end) {
      end_range();
      range.begin = begin;
    }
    range.end = end;
  }
  end_range();
}

}  // namespace

ShardRange GradientBuckets::Impl::own_part(const GradientBucket& bucket, std::size_t d) const {
  if (shard == Shard::none) return {0, bucket.flats[d].numel()};
  const auto each = std::int64_t(bucket.counts[d]);
  const std::int64_t begin = (communicator->first_rank().value() + std::int64_t(d)) * each;
  return {begin, begin + each};
}

bool GradientBuckets::Impl::has_earlier_sum(const GradientBucket& bucket) const {
  return std::ranges::any_of(bucket.entries, [this](std::size_t e) { return parameters[e]->has_earlier_sum(); });
}

void GradientBuckets::Impl::keep_earlier_sum(GradientBucket& bucket) {
  const auto is_sum = [this](std::size_t e) { return parameters[e]->was_summed(); };
  if (std::ranges::none_of(bucket.entries, is_sum)) return;
  const NoGrad guard;
  if (!has_earlier_sum(bucket)) bucket.earlier.clear();  // it belongs to gradients that were dropped
  const bool is_first = bucket.earlier.empty();
  for (std::size_t d = 0; d < count(); ++d) {
    const Tensor& flat = bucket.flats[d];
    const ShardRange own = own_part(bucket, d);
    GradientMemory* const memory = GradientMemory::of(flat);
    if (memory && !memory->is_whole()) continue;  // the sum is already in the device's share
    if (!memory && is_first) {
      const Tensor here = part(flat, own.begin, own.end);
      bucket.earlier.push_back(copied(here, *here.impl()->storage->device, here.dtype()));
      bucket.earlier[d].record_stream(streams[d]);
      continue;
    }
    const Tensor& kept = memory ? memory->share() : bucket.earlier[d];
    for_each_range(bucket, own, is_sum, [&](std::int64_t begin, std::int64_t end) {
      copy_values(part(kept, begin - own.begin, end - own.begin), part(flat, begin, end));
    });
  }
  for (const std::size_t e : bucket.entries)
    if (is_sum(e)) parameters[e]->keep_earlier_sum();
}

void GradientBuckets::Impl::add_earlier_sum(const GradientBucket& bucket, std::size_t d) {
  const Tensor& flat = bucket.flats[d];
  const ShardRange own = own_part(bucket, d);
  const GradientMemory* const memory = GradientMemory::of(flat);
  const Tensor& kept = memory ? memory->share() : bucket.earlier[d];
  const auto has_earlier = [this](std::size_t e) { return parameters[e]->has_earlier_sum(); };
  for_each_range(bucket, own, has_earlier, [&](std::int64_t begin, std::int64_t end) {
    part(flat, begin, end).add_(part(kept, begin - own.begin, end - own.begin));
  });
  if (memory) copy_values(kept, part(flat, own.begin, own.end));
}

}  // namespace lockstep
