// Sums gradients while a backward runs: counts the gradients that arrive in each bucket, launches the bucket's
// collective after the last one, and marks its gradients as summed. Also all-gathers sharded gradients.
#include <algorithm>
#include <map>
#include <utility>

#include <lockstep/autograd/autocast.h>
#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/runtime/drain.h>

#include "core/text.h"
#include "distributed/transport.h"
#include "parallel/all_gather_shards.h"
#include "parallel/gradient_buckets_impl.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

using autograd::Replica;

namespace {

BucketedParameter& parameter_of(const Replica& leaf) { return static_cast<BucketedParameter&>(*leaf.parameter); }

bool has_hooks(const BucketedParameter& parameter) {
  const autograd::Meta& primary = parameter.meta(0);
  return !primary.leaf_hooks.empty() || !primary.accumulated_hooks.empty();
}

}  // namespace

void GradientBuckets::Impl::begin(std::span<const Replica* const> leaves, bool keeps_graph, bool meets) {
  use_in_step();
  const std::scoped_lock lock(mutex);
  if (is_running)
    throw AutogradError(
        "[DataParallel] backward() was called while another backward through the model is running: call it after the "
        "other one has returned");
  if (keeps_graph && !is_alone())
    throw AutogradError(
        "[backward] create_graph is not supported for parameters of a DataParallel over several processes: use "
        "gradients() for the inputs' gradients, which may be differentiated again");
  try {
    prepare(leaves, keeps_graph, meets);
  } catch (...) {
    if ((*summing || !observed.empty()) && !is_alone()) end_others();
    throw;
  }
}

void GradientBuckets::Impl::prepare(std::span<const Replica* const> leaves, bool keeps_graph, bool meets) {
  // If nodes of this backward wait for other processes (`meets`), backward must not also wait for a sum to free memory
  // for the next whole bucket: another process may do the two in the other order, and both would wait forever. So such
  // a backward may take more whole buckets.
  for (const auto& memory : buffers) memory->make_more(meets);
  for (const GradientBucket& bucket : buckets) {
    const auto has_gradient = [this](std::size_t e) { return parameters[e]->has_gradient(); };
    if (buffers.empty() || std::ranges::any_of(bucket.entries, has_gradient)) continue;
    for (const Tensor& flat : bucket.flats) GradientMemory::of(flat)->begin_backward_without_gradients();
  }
  stash_earlier_gradients(leaves, keeps_graph);
  const bool sums = !keeps_graph && (*summing || !observed.empty());
  if (sums && !has_rebuilt && has_order) rebuild_buckets();
  if (sums && !has_rebuilt) take_order(leaves);
  for (const Replica* const leaf : leaves) {
    BucketedParameter& parameter = parameter_of(*leaf);
    if (!parameter.is_trained()) continue;
    keep_earlier_sum(buckets[bucket_of[parameter.entry()]]);
    parameter.begin_backward();
  }
  if (sums) start_reductions(leaves);
  has_unsynced_backward = !sums && !is_alone();
  may_have_partial = may_have_partial || !sums;
  sums_now = sums;
  keeps_graph_now = keeps_graph;
  meets_now = meets;
  is_running = true;
  leaves_left.assign(count(), 0);
  for (const Replica* const leaf : leaves) ++leaves_left[leaf->index];
  for (std::size_t d = 0; d < count() && units; ++d)
    leaves_left[d] > 0 ? units->begin_backward(d) : units->leave_pass(d, false);
}

// Sets aside the earlier gradients of the parameters that backward reaches and that have hooks (or, if `all`, of all
// that it reaches, since their graphs are kept), so that the new gradient is first computed by itself. With several
// processes every parameter counts as reached, because another process may contribute a gradient to it. Before that,
// copies users' changes of whole gradients to the replicas.
void GradientBuckets::Impl::stash_earlier_gradients(std::span<const Replica* const> leaves, bool all) {
  observed.clear();
  std::vector<bool> reached(parameters.size(), !is_alone());
  for (const Replica* const leaf : leaves) reached[parameter_of(*leaf).entry()] = true;
  for (std::size_t e = 0; e < parameters.size(); ++e)
    if (reached[e] && parameters[e]->is_trained() && (all || has_hooks(*parameters[e])))
      observed.push_back({parameters[e], {}});
  for (ObservedParameter& each : observed)  // first, since reconciling would drop the graph of a user's gradient
    if (each.parameter->state() == GradientState::primary) each.earlier = each.parameter->take_gradient();
  reconcile_all_gradients();
  if (!observed.empty()) reduce_partial_gradients();
  std::vector<BucketedParameter*> sharded;
  for (const ObservedParameter& each : observed)
    if (each.parameter->state() == GradientState::sharded) sharded.push_back(each.parameter.get());
  if (!sharded.empty()) all_gather_gradients(sharded);
  for (ObservedParameter& each : observed)
    if (!each.earlier.defined()) each.earlier = each.parameter->take_gradient();
}

// Takes the first device's order: the other devices reach their leaves in the same order if the replicas do the same.
void GradientBuckets::Impl::take_order(std::span<const Replica* const> leaves) {
  has_order = !leaves.empty();
  order.clear();
  for (const Replica* const leaf : leaves)
    if (leaf->index == 0) order.push_back(parameter_of(*leaf).entry());
}

// Starts to sum: launches the buckets that wait for no gradient of `leaves`. If this throws, the launcher has finished
// with the buckets, so they may be destroyed.
void GradientBuckets::Impl::start_reductions(std::span<const Replica* const> leaves) {
  prepare_for_backward(leaves);
  if (is_alone()) return;
  try {
    used_map->publish(used());
  } catch (...) {
    await_launches();
    throw;
  }
}

// True if some gradient in the bucket has to be summed. With several processes that is so for every trained parameter,
// because another process may have a gradient of it.
bool GradientBuckets::Impl::is_needed(const GradientBucket& bucket) const {
  if (may_have_partial && !is_alone()) return true;
  return std::ranges::any_of(bucket.entries, [this](std::size_t e) {
    const bool is_partial = parameters[e]->state() == GradientState::partial;
    return is_partial || (!is_alone() && parameters[e]->is_trained());
  });
}

// Counts the gradients that each bucket waits for, and launches the buckets that wait for none.
void GradientBuckets::Impl::prepare_for_backward(std::span<const Replica* const> leaves) {
  next_bucket = launched_until = 0;
  for (GradientBucket& bucket : buckets) {
    bucket.arrivals.clear();
    bucket.arrivals.resize(count());
    *bucket.devices_left = count();
    bucket.is_needed = is_needed(bucket);
    bucket.is_complete = !bucket.is_needed;
    bucket.is_reduced = false;
    if (bucket.is_needed) keep_earlier_sum(bucket);  // also of other parameters: the whole bucket is reduced
  }
  for (const Replica* const leaf : leaves)
    ++buckets[bucket_of[parameter_of(*leaf).entry()]].arrivals[leaf->index].expected;
  try {
    for (GradientBucket& bucket : buckets)
      for (std::size_t d = 0; d < count() && bucket.is_needed; ++d)
        if (bucket.arrivals[d].expected == 0) mark_device_ready(bucket, d);
  } catch (...) {
    finish_reductions();
    throw;
  }
}

void GradientBuckets::Impl::ready(const Replica& leaf) {
  if (--leaves_left[leaf.index] == 0 && units) units->leave_pass(leaf.index, false);
  if (sums_now) mark_leaf_ready(buckets[bucket_of[parameter_of(leaf).entry()]], leaf.index);
}

// Tells backward whether this device is ahead of the others: it has completed at least options.whole_buckets buckets
// that are not launched yet, and so holds too much whole memory. Counts only up to the first bucket that is incomplete
// on this device, because this thread may have yet to compute that bucket's gradient.
autograd::Ahead GradientBuckets::Impl::is_ahead(const Device& device) {
  if (buffers.empty() || !sums_now || meets_now) return autograd::Ahead::none;
  const auto d = std::size_t(std::ranges::find(devices, device) - devices.begin());
  if (d == count()) return autograd::Ahead::none;
  const std::scoped_lock lock(launch_mutex);
  std::size_t waiting = 0;
  for (std::size_t b = launched_until; b < buckets.size() && !launch_failure; ++b) {
    if (!buckets[b].is_needed) continue;
    if (buckets[b].arrivals[d].expected > 0) break;
    ++waiting;
  }
  const bool is = waiting >= options.whole_buckets;
  if (units && leaves_left[d] > 0) is ? units->leave_pass(d, true) : units->begin_backward(d);
  if (!is) return autograd::Ahead::none;
  return launching > 0 ? autograd::Ahead::sums : autograd::Ahead::devices;
}

void GradientBuckets::Impl::mark_leaf_ready(GradientBucket& bucket, std::size_t d) {
  // The gradients may come from several streams. Each stream waits for that of the gradient before, so the last stream
  // has waited for all of them.
  GradientBucket::Arrivals& here = bucket.arrivals[d];
  const Stream stream = current_stream(devices[d]);
  if (here.last_on && *here.last_on != stream) stream.wait(here.last_on->record());
  here.last_on = stream;
  if (--here.expected == 0) mark_device_ready(bucket, d);
}

// Called when all gradients of the bucket were enqueued on device d. Its current stream waits for all of them.
void GradientBuckets::Impl::mark_device_ready(GradientBucket& bucket, std::size_t d) {
  bucket.arrivals[d].complete.emplace(current_stream(devices[d]).record());
  if (bucket.devices_left->fetch_sub(1) == 1) mark_bucket_ready(bucket);
}

// Called when the bucket is complete on all devices. If all buckets before it are complete too, submits it to the
// launcher, and then the complete buckets that follow it.
void GradientBuckets::Impl::mark_bucket_ready(GradientBucket& bucket) {
  const std::scoped_lock lock(launch_mutex);
  bucket.is_complete = true;
  for (; next_bucket < buckets.size() && buckets[next_bucket].is_complete; ++next_bucket) {
    GradientBucket& next = buckets[next_bucket];
    if (!next.is_needed) continue;
    launcher->submit([this, &next] { launch(next); });
    ++launching;
  }
}

// Runs on the launcher's thread.
void GradientBuckets::Impl::launch(GradientBucket& bucket) noexcept {
  std::unique_lock lock(launch_mutex);
  if (!launch_failure) {
    lock.unlock();
    std::exception_ptr failure;
    try {
      reduce(bucket);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    launch_failure = failure;
  }
  --launching;
  launched_until = std::size_t(&bucket - buckets.data()) + 1;
  has_launched.notify_all();
  lock.unlock();
  if (!buffers.empty()) DeviceThread::notify();
}

// Waits until the launcher has run its queue. Returns its first error, or null.
std::exception_ptr GradientBuckets::Impl::await_launches() {
  std::unique_lock lock(launch_mutex);
  has_launched.wait(lock, [this] { return launching == 0; });
  return std::exchange(launch_failure, nullptr);
}

// Sums the bucket over all replicas: into the whole bucket on each device or, with sharding, into each device's shard.
void GradientBuckets::Impl::reduce(GradientBucket& bucket) {
  const NoGrad guard;
  const DType dtype = bucket.flats[0].dtype();
  std::vector<RankBuffers> ranks;
  const bool shards = shard != Shard::none, adds = has_earlier_sum(bucket);
  for (std::size_t d = 0; d < count(); ++d) {
    streams[d].wait(*bucket.arrivals[d].complete);
    const StreamGuard on(streams[d]);
    for (const std::size_t e : bucket.entries) parameters[e]->prepare_sum(d);
    const Tensor& flat = bucket.flats[d];
    flat.record_stream(streams[d]);
    RankBuffers& rank = ranks.emplace_back(RankBuffers{streams[d], flat.impl()->data()});
    rank.receive = flat.impl()->data() + std::size_t(own_part(bucket, d).begin) * size_of(dtype);
    if (const GradientMemory* const memory = GradientMemory::of(flat)) {
      memory->share().record_stream(streams[d]);
      if (!adds) rank.receive = memory->share().impl()->data();
    }
  }
  if (shards) {
    communicator->reduce_scatter(ranks, bucket.counts, dtype);
  } else if (options.comm_hook) {
    call_comm_hook(bucket);
  } else {
    communicator->all_reduce(ranks, std::size_t(bucket.flats[0].numel()), dtype);
  }
  for (std::size_t d = 0; d < count(); ++d) {
    const StreamGuard on(streams[d]);
    if (adds) add_earlier_sum(bucket, d);
    if (GradientMemory* const memory = GradientMemory::of(bucket.flats[d])) memory->release(streams[d]);
  }
  bucket.earlier.clear();
  bucket.is_reduced = true;
}

// If the hook throws, the other processes would wait for the sums that it did not launch. So fails the transport.
void GradientBuckets::Impl::call_comm_hook(GradientBucket& bucket) {
  try {
    ReducingBucket reducing(std::size_t(&bucket - buckets.data()), bucket.flats, streams, *communicator);
    options.comm_hook(reducing);
  } catch (...) {
    if (!is_alone())
      world.transport()->fail(
          text("a comm_hook failed in process ", world.rank().value(), " on ", world.host(world.rank())));
    throw;
  }
}

void GradientBuckets::Impl::end(bool failed) {
  std::vector<ObservedParameter> all;
  std::exception_ptr failure;
  {
    const std::scoped_lock lock(mutex);
    is_running = false;
    for (std::size_t d = 0; d < count() && units; ++d) units->leave_pass(d, false);
    if (sums_now && !is_alone()) end_others_if_incomplete();
    all.swap(observed);
    try {
      if (sums_now.exchange(false)) finish_reductions();
      if (keeps_graph_now)
        for (const ObservedParameter& each : all) each.parameter->join_graphs();
    } catch (...) {
      failure = std::current_exception();
    }
    for (GradientBucket& bucket : buckets) {
      bucket.are_in_lockstep();
      for (const Tensor& flat : bucket.flats)
        if (GradientMemory* const memory = GradientMemory::of(flat)) memory->end_backward();
    }
  }
  // The lock is not held from here on, because hooks may use gradients, which takes it.
  std::size_t done = 0;
  try {
    const GradMode mode(keeps_graph_now);
    const NoAutocast dtypes_of_forward;
    for (; !failed && !failure && done < all.size(); ++done) run_hooks(all[done], keeps_graph_now);
  } catch (Error& error) {
    error.add_context("in a hook of a parameter");
    failure = std::current_exception();
  } catch (...) {
    failure = std::current_exception();
  }
  restore(std::span(all).subspan(done));
  if (done < all.size() && !failed && !is_alone())
    world.transport()->fail(
        text("a hook of a parameter failed in process ", world.rank().value(), " on ", world.host(world.rank())));
  if (failure) std::rethrow_exception(failure);
}

// Calls the hooks with the gradient of this backward, summed over all replicas; then adds the earlier gradient.
void GradientBuckets::Impl::run_hooks(const ObservedParameter& each, bool keeps_graph) {
  BucketedParameter& parameter = *each.parameter;
  if (parameter.is_stale()) return;  // a hook has made new replicas
  complete_gradient(parameter.entry());
  const Tensor summed = parameter.gradient(0);
  if (!summed.defined()) return restore(std::span(&each, 1));
  const autograd::Meta& primary = parameter.meta(0);
  // A clone, because a hook may keep the tensor, and the next backward would overwrite the slot.
  const Tensor hook_input = primary.leaf_hooks.empty() || keeps_graph ? summed : summed.clone();
  Tensor gradient = hook_input;
  primary.leaf_hooks.call_each(
      [&](const auto& hook) { gradient = autograd::apply_hook("register_hook", hook, gradient); });
  if (each.earlier.defined()) gradient = each.earlier.add(gradient);
  if (!gradient.is_same(hook_input)) parameter.set_whole_gradient(gradient, keeps_graph);
  primary.accumulated_hooks.call_each([&](const auto& hook) { hook(parameter.tensor(0)); });
}

// Sets these parameters' gradients to the earlier ones, as if this backward had not reached them.
void GradientBuckets::Impl::restore(std::span<const ObservedParameter> all) noexcept {
  for (const ObservedParameter& each : all)
    if (!each.parameter->is_stale()) each.parameter->set_whole_gradient(each.earlier, true);
}

// If backward failed before this process launched all buckets, the other processes wait for the missing ones, and would
// take its next sums for them. So fails the transport.
void GradientBuckets::Impl::end_others_if_incomplete() {
  const std::scoped_lock lock(launch_mutex);
  if (next_bucket < buckets.size()) end_others();
}

void GradientBuckets::Impl::end_others() {
  world.transport()->fail(
      text("a backward failed in process ", world.rank().value(), " on ", world.host(world.rank())));
}

void GradientBuckets::Impl::finish_reductions() {
  const std::exception_ptr failure = await_launches();
  if (!failure) {
    finalize_buckets();
    may_have_partial = false;
    return;
  }
  try {
    finalize_buckets();
  } catch (...) {  // a consequence of the first failure, which is thrown
  }
  std::rethrow_exception(failure);
}

void GradientBuckets::Impl::finalize_buckets() {
  for (std::size_t d = 0; d < count(); ++d) current_stream(devices[d]).wait(streams[d].record());
  std::vector<bool> used_somewhere(parameters.size());
  if (!is_alone()) used_somewhere = used_map->collect(parameters.size());
  for (GradientBucket& bucket : buckets)
    if (std::exchange(bucket.is_reduced, false))
      for (const std::size_t e : bucket.entries)
        if (used_somewhere[e] || parameters[e]->state() == GradientState::partial)
          parameters[e]->take_sum(used_somewhere[e]);
}

// The parameters to whose sums this process will contribute.
std::vector<bool> GradientBuckets::Impl::used() const {
  std::vector<bool> used;
  for (const auto& parameter : parameters) used.push_back(parameter->state() == GradientState::partial);
  return used;
}

// Sums the gradients of earlier backwards that are not summed yet. All processes call it, because any may have some.
void GradientBuckets::Impl::reduce_partial_gradients() {
  if (!std::exchange(has_unsynced_backward, false) &&
      std::ranges::none_of(parameters, [](const auto& p) { return p->state() == GradientState::partial; }))
    return;
  start_reductions({});
  finish_reductions();
  for (GradientBucket& bucket : buckets) bucket.are_in_lockstep();
}

void GradientBuckets::Impl::complete_gradient(std::size_t entry) {
  use_in_step();
  const std::scoped_lock lock(mutex);
  if (is_running || parameters.empty()) return;
  BucketedParameter* const parameter = parameters[entry].get();
  const auto is_partial = [&] { return has_unsynced_backward || parameter->state() == GradientState::partial; };
  if (!is_partial() && parameter->state() != GradientState::sharded) return;
  detail::draining(devices, [&] {
    if (is_partial()) {
      reconcile_all_gradients();
      reduce_partial_gradients();
    }
    if (parameter->state() == GradientState::sharded) all_gather_gradients(std::span(&parameter, 1));
  });
}

void GradientBuckets::Impl::all_gather_gradients(std::span<BucketedParameter* const> which) {
  all_gather_shards(which, &BucketedParameter::sharded_gradient);
  for (BucketedParameter* const parameter : which) parameter->take_gathered();
}

// One all-gather for each bucket, in an order that is the same in all processes.
void GradientBuckets::Impl::all_gather_shards(std::span<BucketedParameter* const> which,
                                              ShardedTensor (BucketedParameter::*of)() const) {
  std::map<std::size_t, std::map<std::size_t, ShardedTensor>> of_buckets;  // by bucket and entry
  for (const BucketedParameter* const parameter : which)
    of_buckets[bucket_of[parameter->entry()]].emplace(parameter->entry(), (parameter->*of)());
  for (auto& [bucket, by_entry] : of_buckets) {
    std::vector<ShardedTensor> tensors;
    for (auto& [entry, tensor] : by_entry) tensors.push_back(std::move(tensor));
    lockstep::all_gather_shards(*communicator, tensors);
  }
}

void GradientBuckets::Impl::begin_update() {
  if (units) units->begin_update();
}

void GradientBuckets::Impl::abandon_update(bool fails_others) noexcept {
  if (units) units->abandon_update();
  if (fails_others && !is_alone())
    world.transport()->fail(
        text("a step of an optimizer failed in process ", world.rank().value(), " on ", world.host(world.rank())));
}

void GradientBuckets::Impl::all_gather(std::span<autograd::ReplicatedParameter* const> which) {
  const std::scoped_lock lock(mutex);
  if (units) {
    std::vector<Tensor> changed;
    for (const autograd::ReplicatedParameter* const parameter : which)
      for (const Replica& replica : parameter->replicas()) bump_version(changed.emplace_back(replica.tensor));
    return units->end_update(changed, is_alone() ? nullptr : &*communicator);
  }
  std::vector<BucketedParameter*> sharded;
  for (autograd::ReplicatedParameter* const parameter : which)
    sharded.push_back(static_cast<BucketedParameter*>(parameter));
  all_gather_shards(sharded, &BucketedParameter::sharded_values);
}

std::vector<Tensor> GradientBuckets::Impl::all_gather_numbers(std::span<const Tensor> numbers) {
  const std::scoped_lock lock(mutex);
  const auto each = std::size_t(numbers[0].numel()), ranks = std::size_t(communicator->size());
  std::vector<Tensor> all;
  std::vector<RankBuffers> parts;
  for (std::size_t d = 0; d < count(); ++d) {
    all.push_back(make_tensor(device_state(devices[d]), {std::int64_t(each * ranks)}, kFloat64));
    parts.push_back({current_stream(devices[d]), numbers[d].impl()->data(), all[d].impl()->data()});
  }
  communicator->all_gather(parts, std::vector<std::size_t>(ranks, each), kFloat64);
  return all;
}

}  // namespace lockstep
