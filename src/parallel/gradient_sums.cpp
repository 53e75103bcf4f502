// The sums of a backward: what each bucket waits for, its collective, and who has the result; and gathering what the
// devices divide.
#include <algorithm>
#include <ranges>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/runtime/drain.h>

#include "parallel/gather_shares.h"
#include "parallel/gradient_buckets_impl.h"
#include "tensor/copy.h"

namespace lockstep {

using autograd::Meta;

void GradientBuckets::Impl::begin(std::span<const std::size_t> leaves) {
  const std::scoped_lock lock(mutex);
  if (running) throw AutogradError("[DataParallel] expected one backward at a time through a module, got a second one");
  bring_gradients();
  const bool sums = *summing;
  if (sums && !observed && !order.empty() && fit_their_slots()) observe();
  summing_now = sums;
  if (sums && !observed) take_order(leaves);
  for (const std::size_t l : leaves) primary(l / count()).unsummed = true;
  if (summing_now) expect(leaves);
  running = true;
}

// The first device's: the others come to theirs in the same order, if the replicas do the same.
void GradientBuckets::Impl::take_order(std::span<const std::size_t> leaves) {
  order.clear();
  for (const std::size_t l : leaves)
    if (l % count() == 0) order.push_back(l / count());
}

// Counts what each bucket waits for.
void GradientBuckets::Impl::expect(std::span<const std::size_t> leaves) {
  arrives.assign(parameters.size() * count(), false);
  for (const std::size_t l : leaves) arrives[l] = true;
  for (GradientBucket& bucket : buckets) {
    bucket.expected.assign(count(), 0);
    bucket.arrived_on.assign(count(), std::nullopt);
    bucket.complete.clear();
    bucket.complete.resize(count());
    bucket.launched =
        std::none_of(bucket.entries.begin(), bucket.entries.end(), [&](std::size_t e) { return primary(e).unsummed; });
    bucket.reduced = false;
    bucket.devices_left = count();
    for (const std::size_t e : bucket.entries)
      for (std::size_t d = 0; d < count(); ++d) bucket.expected[d] += arrives[leaf(e, d)];
  }
  try {
    for (GradientBucket& bucket : buckets)
      for (std::size_t d = 0; d < count() && !bucket.launched; ++d)
        if (bucket.expected[d] == 0) device_complete(bucket, d);
  } catch (...) {
    take_sums();
    throw;
  }
}

void GradientBuckets::Impl::ready(std::size_t l) {
  const std::scoped_lock lock(mutex);
  if (!summing_now) return;
  const std::size_t e = l / count(), d = l % count();
  count_down(buckets[bucket_of[e]], d);
}

void GradientBuckets::Impl::absent(std::size_t l) {
  const std::scoped_lock lock(mutex);
  if (!summing_now) return;
  arrives[l] = false;
  count_down(buckets[bucket_of[l / count()]], l % count());
}

void GradientBuckets::Impl::count_down(GradientBucket& bucket, std::size_t d) {
  // Gradients that came on other streams are there when this one has waited for the last of those, and so on.
  const Stream here = current_stream(devices[d]);
  std::optional<Stream>& before = bucket.arrived_on[d];
  if (before && *before != here) here.wait(before->record());
  before = here;
  if (--bucket.expected[d] == 0) device_complete(bucket, d);
}

// All gradients of the bucket are there on device d, as far as its current stream has come.
void GradientBuckets::Impl::device_complete(GradientBucket& bucket, std::size_t d) {
  bucket.complete[d].emplace(current_stream(devices[d]).record());
  if (--bucket.devices_left == 0) launch(bucket);
}

void GradientBuckets::Impl::launch(GradientBucket& bucket) {
  bucket.launched = true;
  const NoGrad guard;
  std::vector<RankBuffers> ranks;
  for (std::size_t d = 0; d < count(); ++d) {
    streams[d].wait(*bucket.complete[d]);
    const StreamGuard on(streams[d]);
    for (const std::size_t e : bucket.entries) {
      // What this device does not add: nothing came, or what is there was summed before.
      Meta& meta = *autograd::meta_of(parameters[e][d]);
      if (arrives[leaf(e, d)]) continue;
      if (!meta.grad.defined()) {
        fill_values(meta.grad_slot, 0);
      } else if (meta.replaces_grad) {
        keep_share(meta);
        meta.scattered = options.shard_optimizer_state;
      } else if (!meta.grad.is_same(meta.grad_slot)) {
        copy_values(meta.grad_slot, meta.grad);
      }
    }
    bucket.flats[d].record_stream(streams[d]);
    ranks.push_back({streams[d], bucket.flats[d].impl()->data()});
  }
  reduce(bucket, ranks);
  bucket.reduced = true;
}

// In place: all of it on each device, or each device's share.
void GradientBuckets::Impl::reduce(const GradientBucket& bucket, std::vector<RankBuffers>& ranks) {
  const DType dtype = bucket.flats[0].dtype();
  std::size_t offset = 0;
  for (std::size_t d = 0; d < count(); ++d) {
    ranks[d].receive = bucket.flats[d].impl()->data() + offset * size_of(dtype);
    if (options.shard_optimizer_state) offset += bucket.counts[d];
  }
  if (options.shard_optimizer_state)
    communicator->reduce_scatter(ranks, bucket.counts, dtype);
  else
    communicator->all_reduce(ranks, std::size_t(bucket.flats[0].numel()), dtype);
}

void GradientBuckets::Impl::end() {
  const std::scoped_lock lock(mutex);
  running = false;
  if (std::exchange(summing_now, false)) take_sums();
  for (GradientBucket& bucket : buckets) bucket.are_in_lockstep();
}

bool GradientBuckets::Impl::is_running() {
  const std::scoped_lock lock(mutex);
  return running;
}

// After all buckets that could be were reduced.
void GradientBuckets::Impl::take_sums() {
  for (std::size_t d = 0; d < count(); ++d) current_stream(devices[d]).wait(streams[d].record());
  for (GradientBucket& bucket : buckets) {
    if (!bucket.reduced) continue;
    for (const std::size_t e : bucket.entries) {
      if (!std::exchange(primary(e).unsummed, false) || !has_gradient(e)) continue;
      for (std::size_t d = 0; d < count(); ++d) {
        Meta& meta = meta_at(e, d);
        bump_version(meta.grad_slot);
        take_slot(meta, d, options.shard_optimizer_state);
      }
    }
  }
}

// What is in the slot is the gradient: the sum, or the device's share of it.
void GradientBuckets::Impl::take_slot(Meta& meta, std::size_t d, bool scattered) const {
  meta.grad = meta.grad_slot;
  meta.scattered = scattered;
  // Each device keeps its share of what was summed, or the first one all; the next gradient replaces the rest.
  meta.replaces_grad = options.shard_optimizer_state || d != 0;
}

// What several backwards have left to be summed.
void GradientBuckets::Impl::sum_now() {
  const auto entries = std::views::iota(std::size_t(0), parameters.size());
  if (std::ranges::none_of(entries, [&](std::size_t e) { return primary(e).unsummed; })) return;
  expect({});
  take_sums();
  for (GradientBucket& bucket : buckets) bucket.are_in_lockstep();
}

void GradientBuckets::Impl::complete_gradient(std::size_t l) {
  const std::scoped_lock lock(mutex);
  if (running) return;
  const std::size_t e = l / count();
  if (parameters.empty()) return;  // given up meanwhile
  detail::draining(devices, [&] {
    if (primary(e).unsummed) {
      bring_gradients();
      sum_now();
    }
    if (is_scattered(e)) gather_gradients(std::span(&e, 1));
  });
}

void GradientBuckets::Impl::gather_gradients(std::span<const std::size_t> which) {
  std::vector<DividedTensor> all;
  for (const std::size_t e : which) {
    DividedTensor& gradient = all.emplace_back();
    for (const Tensor& place : parameters[e]) {
      const Meta& meta = *autograd::meta_of(place);
      gradient.push_back({meta.grad_slot, *meta.share});
    }
  }
  gather_shares(*communicator, all);
  for (const std::size_t e : which)
    for (const Tensor& place : parameters[e]) autograd::meta_of(place)->scattered = false;
}

void GradientBuckets::Impl::gather_leaves(std::span<const std::size_t> leaves) {
  const std::scoped_lock lock(mutex);
  std::vector<DividedTensor> all;
  for (const std::size_t l : leaves) {
    DividedTensor& parameter = all.emplace_back();
    for (const Tensor& place : parameters[l / count()]) parameter.push_back({place, *autograd::meta_of(place)->share});
  }
  gather_shares(*communicator, all);
}

}  // namespace lockstep
