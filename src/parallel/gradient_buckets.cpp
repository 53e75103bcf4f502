#include <lockstep/parallel/gradient_buckets.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <iostream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <unordered_set>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/runtime/drain.h>

#include "core/text.h"
#include "nn/each_state.h"
#include "parallel/gradient_buckets_impl.h"

namespace lockstep {
namespace {

// The tensors that get gradients, including buffers. Each is listed once, even if the module names it twice.
std::vector<Tensor> trainable_tensors(const nn::ModuleBase& module) {
  std::vector<Tensor> all;
  std::unordered_set<const TensorImpl*> seen;
  nn::for_each_state(module, [&](const nn::Path&, const nn::State& value) {
    if (value.requires_grad() && seen.insert(value.impl()).second) all.push_back(value);
  });
  return all;
}

std::vector<std::vector<Tensor>> tensors_of(std::span<const std::shared_ptr<BucketedParameter>> parameters) {
  std::vector<std::vector<Tensor>> all;
  for (const auto& parameter : parameters) all.push_back(parameter->tensors());
  return all;
}

}  // namespace

BucketLayout GradientBuckets::Impl::lay_out(std::span<const std::vector<Tensor>> tensors,
                                            std::span<const std::size_t> in_order) const {
  const auto processes = std::size_t(world.size());
  if (buffers.empty()) return lay_out_buckets(tensors, in_order, options, shard, processes);
  const std::size_t first_rank = std::size_t(world.rank().value()) * count();
  return lay_out_buckets(tensors, in_order, options, shard, processes,
                         [&](std::size_t d, const Device&, std::int64_t elements, DType dtype) {
                           return GradientMemory::make_flat(buffers[d], elements, dtype, first_rank + d,
                                                            count() * processes);
                         });
}

void GradientBuckets::Impl::take_layout(BucketLayout layout) {
  buckets.clear();
  place(parameters, std::move(layout));
}

// Appends the buckets of `layout`, which is a layout of the parameters `which`, and moves their gradients there. The
// parameters' entries are consecutive.
void GradientBuckets::Impl::place(std::span<const std::shared_ptr<BucketedParameter>> which, BucketLayout layout) {
  const NoGrad guard;
  const std::size_t first = which[0]->entry(), present = buckets.size();
  for (std::size_t e = 0; e < which.size(); ++e)
    for (std::size_t d = 0; d < count(); ++d) which[e]->copy_gradient(d, layout.slots[e].memory[d]);
  bucket_of.resize(std::max(bucket_of.size(), first + which.size()));
  for (BucketMemory& memory : layout.buckets) {
    for (std::size_t& e : memory.entries) bucket_of[e += first] = buckets.size();
    static_cast<BucketMemory&>(buckets.emplace_back()) = std::move(memory);
  }
  for (std::size_t e = 0; e < which.size(); ++e)
    which[e]->set_slots(std::move(layout.slots[e].memory), layout.slots[e].shards);
  for (std::size_t b = present; b < buckets.size(); ++b) buckets[b].are_in_lockstep();
  may_have_partial = true;
}

// Rebuilds the buckets once, after the first backward, in the order in which that backward reached the leaves.
// Meanwhile all gradients need their memory twice; if there is not enough memory, the present buckets are kept. Either
// all processes rebuild or none, because otherwise they would sum buckets of different parameters.
void GradientBuckets::Impl::rebuild_buckets() {
  if (!agree_on_order()) return;
  const bool had_sums = std::ranges::any_of(parameters, [](const auto& p) { return p->was_summed(); });
  const std::vector<std::size_t> in_order = rebuilt_order();
  if (!are_divided_as(divide_into_buckets(tensors_of(parameters), in_order, options))) {
    const std::vector<std::vector<Tensor>> tensors = tensors_of(parameters);
    std::optional<BucketLayout> layout;
    std::vector<ParameterUnits::Unit> made;
    try {
      layout = lay_out(tensors, in_order);
      if (units) made = units->make_units(*layout);
      if (units) units->reserve_slots_for(made);
    } catch (const OutOfMemory&) {
      layout.reset();
    }
    if (all_processes_agree(layout.has_value(), "making buckets anew")) {
      if (units) units->move_to(std::move(made), tensors, *layout);
      take_layout(std::move(*layout));
      if (shard != Shard::none && had_sums) reduce_partial_gradients();  // the old shards of sums are parts of sums now
    }
  }
  has_rebuilt = true;
}

std::vector<std::size_t> GradientBuckets::Impl::rebuilt_order() const {
  std::vector<bool> seen(parameters.size());
  std::vector<std::size_t> all = order;
  for (const std::size_t e : order) seen[e] = true;
  for (std::size_t e = parameters.size(); e-- > 0;)
    if (!seen[e]) all.push_back(e);
  return all;
}

bool GradientBuckets::Impl::all_processes_agree(bool is_there, const char* what) const {
  return is_alone() ? is_there : std::ranges::all_of(world.all_gather(std::int64_t(is_there), what), std::identity());
}

// Sets `order` to the first process's order. Returns true if every process can rebuild.
bool GradientBuckets::Impl::agree_on_order() {
  if (is_alone()) return can_rebuild();
  std::string own = can_rebuild() ? "y " : "n ";
  for (const std::size_t e : order) own += text(e, ' ');
  const std::vector<std::string> of_each = world.all_gather(own, "agreeing on the order of buckets");
  std::istringstream first(of_each[0].substr(1));
  order.assign(std::istream_iterator<std::size_t>(first), {});
  return std::ranges::all_of(of_each, [](const std::string& each) { return each.starts_with('y'); });
}

// True if `others` divides the parameters as the present buckets do. The order inside a bucket does not matter, because
// a bucket is reduced as a whole.
bool GradientBuckets::Impl::are_divided_as(std::vector<std::vector<std::size_t>> others) const {
  return std::ranges::equal(buckets, others, [](const GradientBucket& bucket, std::vector<std::size_t>& other) {
    std::vector<std::size_t> own = bucket.entries;
    std::ranges::sort(own);
    std::ranges::sort(other);
    return own == other;
  });
}

bool GradientBuckets::Impl::fit_slots() const {
  return have_parameters() &&
         std::ranges::all_of(parameters, [](const auto& parameter) { return parameter->fits_slots(); });
}

// False if a parameter was moved to another device, because its slot does not fit then. Also false if some gradients
// are sums and others are not summed yet (parts of sums): with sharding a rebuild would turn the sums into parts too.
bool GradientBuckets::Impl::can_rebuild() const {
  const auto is_sum = [](const auto& parameter) { return parameter->was_summed() || parameter->has_earlier_sum(); };
  const auto is_part = [](const auto& parameter) { return parameter->state() == GradientState::partial; };
  return fit_slots() && (std::ranges::none_of(parameters, is_sum) || std::ranges::none_of(parameters, is_part));
}

void GradientBuckets::Impl::check_idle(const char* op) {
  use_in_step();
  const std::scoped_lock lock(mutex);
  if (is_running)
    throw AutogradError(text("[", op,
                             "] called while a backward through the parameter's DataParallel is running: call it after "
                             "backward() has returned"));
}

bool GradientBuckets::Impl::have_parameters() const {
  if (units) units->use_in_step();
  return !units ||
         std::ranges::all_of(parameters, [this](const auto& parameter) { return units->have(parameter->tensor(0)); });
}

void GradientBuckets::Impl::reconcile(std::size_t entry) {
  use_in_step();
  const std::scoped_lock lock(mutex);
  if (is_running)
    throw AutogradError(
        "[DataParallel] a gradient was used while a backward through the model is running: use gradients after "
        "backward() has returned");
  if (parameters.empty()) return;
  BucketedParameter& parameter = *parameters[entry];
  parameter.check_sharded_in_place();
  if (units && !units->have(parameter.tensor(0)))
    throw InvalidArgument(
        text("[DataParallel] a sharded parameter of shape ", parameter.tensor(0).sizes(),
             " got other memory after the last forward, for example by reset() or to(): run forward first"));
  if (has_unsynced_backward || parameter.state() == GradientState::partial) {
    reconcile_all_gradients();
    reduce_partial_gradients();
  } else {
    reconcile_gradients(buckets[bucket_of[entry]]);
  }
  if (parameter.fits_slot(0)) parameter.copy_value_from_primary();
}

// When the last gradient of a bucket is dropped, also drops the bucket's earlier sum. With sharded gradients, also
// frees the bucket's whole memory, which it still has if a gradient in it was read or set, or if a backward failed.
void GradientBuckets::Impl::gradient_dropped(std::size_t entry) {
  const std::scoped_lock lock(mutex);
  if (parameters.empty()) return;
  GradientBucket& bucket = buckets[bucket_of[entry]];
  if (!bucket.earlier.empty() && !has_earlier_sum(bucket)) bucket.earlier.clear();
  if (buffers.empty()) return;
  const auto is_whole = [](const Tensor& flat) { return GradientMemory::of(flat)->is_whole(); };
  const auto has_gradient = [this](std::size_t e) { return parameters[e]->has_gradient(); };
  if (std::ranges::none_of(bucket.flats, is_whole) || std::ranges::any_of(bucket.entries, has_gradient)) return;
  for (std::size_t d = 0; d < count(); ++d) GradientMemory::of(bucket.flats[d])->release(current_stream(devices[d]));
}

void GradientBuckets::Impl::reconcile_all_gradients() {
  for (GradientBucket& bucket : buckets) reconcile_gradients(bucket);
}

// If a user has changed or set a whole gradient only in the primary, copies it to the replicas.
void GradientBuckets::Impl::reconcile_gradients(GradientBucket& bucket) {
  const bool has_drifted = bucket.has_drifted();
  bool changed = has_drifted;
  for (const std::size_t e : bucket.entries) {
    BucketedParameter& parameter = *parameters[e];
    const bool lags =
        parameter.state() == GradientState::primary || (parameter.state() == GradientState::summed && has_drifted);
    if (!lags || !parameter.primary_fits_slot()) continue;
    parameter.copy_gradient_from_primary();
    changed = true;
  }
  if (changed) bucket.are_in_lockstep();
}

void GradientBuckets::Impl::release() {
  const std::scoped_lock lock(mutex);
  if (is_running)
    throw AutogradError(
        "[DataParallel] forward() has to rebuild the replicas, but a backward through them is still running: call "
        "forward() after backward() has returned");
  if (std::ranges::any_of(devices, is_lost)) return drop();  // a lost device's part of the sums is lost too
  if (parameters.empty()) return drop();
  detail::draining(devices, [this] {
    reconcile_all_gradients();
    reduce_partial_gradients();
    std::vector<BucketedParameter*> sharded;
    for (const auto& parameter : parameters)
      if (parameter->state() == GradientState::sharded) sharded.push_back(parameter.get());
    all_gather_gradients(sharded);
  });
  drop();
}

bool GradientBuckets::Impl::has_partial() const {
  return std::ranges::any_of(parameters, [](const auto& each) { return each->state() == GradientState::partial; });
}

void GradientBuckets::Impl::drop() noexcept {
  for (const auto& parameter : parameters) parameter->release();
  parameters.clear();
  buckets.clear();
  is_released = true;
}

// The tensors that get gradients and are not among `parameters`, each by device.
std::vector<std::vector<Tensor>> GradientBuckets::Impl::untracked_parameters(
    std::span<nn::ModuleBase* const> modules) const {
  std::vector<std::vector<Tensor>> others;
  for (nn::ModuleBase* const module : modules) {
    const std::vector<Tensor> found = trainable_tensors(*module);
    if (!others.empty() && found.size() != others.size())
      throw InvalidArgument(
          "[DataParallel] expected a tensor in one member of the module, got one in two members, of which each replica "
          "would have two: let forward use one member twice");
    others.resize(found.size());
    for (std::size_t e = 0; e < found.size(); ++e) others[e].push_back(found[e]);
  }
  std::erase_if(others, [this](const std::vector<Tensor>& replicas) {
    const autograd::Replica* const own = autograd::replica_of(replicas[0]);
    return own && own->parameter->listener().get() == this;
  });
  return others;
}

void GradientBuckets::Impl::add(std::span<nn::ModuleBase* const> modules) {
  const std::vector<std::vector<Tensor>> others = untracked_parameters(modules);
  if (others.empty()) return;
  use_in_step();
  for (const std::vector<Tensor>& replicas : others)
    if (const autograd::Replica* const former = autograd::replica_of(replicas[0]))
      if (const auto owner = std::dynamic_pointer_cast<Impl>(former->parameter->listener())) owner->release();
  const std::scoped_lock lock(mutex);
  if (is_running)
    throw AutogradError(
        "[DataParallel] forward() found a newly unfrozen parameter while a backward is running: call it after "
        "backward() has returned");
  if (!communicator) connect();
  const std::size_t first = parameters.size();
  std::vector<std::shared_ptr<BucketedParameter>> added;
  for (const std::vector<Tensor>& replicas : others)
    added.push_back(
        std::make_shared<BucketedParameter>(replicas, weak_from_this(), first + added.size(), world, calls));
  std::vector<std::size_t> reversed(added.size());
  std::iota(reversed.rbegin(), reversed.rend(), std::size_t(0));
  if (units) {
    const ParameterUnits::Values values(others, devices[0]);
    BucketLayout layout = lay_out(others, reversed);
    units->add(others, values, layout);
    place(added, std::move(layout));
  } else {
    place(added, lay_out(others, reversed));
  }
  for (const auto& parameter : added) parameter->attach();
  parameters.insert(parameters.end(), added.begin(), added.end());
}

// Makes the streams and communicators, for the first parameters.
void GradientBuckets::Impl::connect() {
  streams.clear();
  for (const Device& device : devices) streams.push_back(Stream::from_pool(device, StreamPriority::high));
  if (!launcher) launcher.emplace(devices.front());
  if (!is_alone()) used_map.emplace(world);
  if (shard >= Shard::gradients)
    for (const Device& device : devices)
      buffers.push_back(std::make_shared<BucketBuffers>(device, options.whole_buckets));
  if (shard >= Shard::hybrid)
    units = std::make_shared<ParameterUnits>(devices, world, options.whole_buckets, shard == Shard::parameters,
                                             options.communicator);
  communicator.emplace(devices, world, options.communicator);
}

GradientBuckets::GradientBuckets() = default;

void GradientBuckets::check(const BucketOptions& options, Shard shard) {
  if (options.comm_hook && shard != Shard::none)
    throw InvalidArgument(text("[DataParallel] expected a comm_hook or .shard, got both (Shard::", shard,
                               "): a hook leaves whole sums, but sharding sums only each device's shard"));
  if (options.whole_buckets < 2)
    throw InvalidArgument(text("[DataParallel] expected .whole_buckets to be at least 2, got ", options.whole_buckets));
}

GradientBuckets::GradientBuckets(std::span<nn::ModuleBase* const> modules, std::span<const Device> devices,
                                 const BucketOptions& options, Shard shard, Summing summing, const World& world,
                                 const std::shared_ptr<CallLog>& calls, double weight_without_pass)
    : impl_(std::make_shared<Impl>()) {
  check(options, shard);
  Impl& impl = *impl_;
  impl.devices.assign(devices.begin(), devices.end());
  impl.options = options;
  impl.shard = shard;
  impl.world = world;
  impl.share_without_pass = weight_without_pass;
  impl.calls = calls;
  impl.summing = std::move(summing);
  impl.add(modules);
}

GradientBuckets::~GradientBuckets() {
  if (!impl_) return;
  // To gather shards, or to sum, this process would have to wait for other processes, which may have ended, or may be
  // in a backward, whose sums this one would be taken for. So the gradients are dropped.
  if (!impl_->is_alone() &&
      (impl_->shard != Shard::none || impl_->may_have_partial || std::uncaught_exceptions() > 0)) {
    if (impl_->has_partial() && std::uncaught_exceptions() == 0)
      std::cerr << "[DataParallel] gradients of a model that was destroyed were not summed over all processes, and are "
                   "dropped: run the last backward outside of no_sync()\n";
    impl_->drop();
    return;
  }
  try {
    impl_->release();
  } catch (const std::exception& error) {
    std::cerr << text("[DataParallel] gradients of a model that was destroyed could not be summed, and are dropped: ",
                      error.what(), '\n');
    impl_->drop();
  } catch (...) {
    std::cerr << "[DataParallel] gradients of a model that was destroyed could not be summed, and are dropped\n";
    impl_->drop();
  }
}

GradientBuckets::GradientBuckets(GradientBuckets&&) noexcept = default;
GradientBuckets& GradientBuckets::operator=(GradientBuckets&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

void GradientBuckets::add(std::span<nn::ModuleBase* const> modules) {
  if (impl_) impl_->add(modules);
}
void GradientBuckets::release() {
  if (impl_) impl_->release();
}
bool GradientBuckets::are_current() const noexcept { return !impl_ || !impl_->is_released; }
void GradientBuckets::begin_pass(std::size_t count) {
  if (impl_ && impl_->units) impl_->units->begin_pass(count);
}
void GradientBuckets::leave_pass(std::size_t d, bool backward_follows) noexcept {
  if (impl_ && impl_->units) impl_->units->leave_pass(d, backward_follows);
}
bool GradientBuckets::have_parameters() const { return !impl_ || impl_->have_parameters(); }
std::size_t GradientBuckets::bucket_count() const noexcept { return impl_ ? impl_->buckets.size() : 0; }

}  // namespace lockstep
