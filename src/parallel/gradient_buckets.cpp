#include <lockstep/parallel/gradient_buckets.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <ranges>
#include <unordered_set>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/runtime/communicator.h>

#include "autograd/node.h"
#include "core/text.h"
#include "parallel/bucket_layout.h"
#include "parallel/gather_shares.h"
#include "parallel/in_lockstep.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

using autograd::Meta;

// Each once, though the module may name it twice.
struct Trainable final : nn::Visitor {
  std::vector<Tensor> parameters;
  std::unordered_set<const TensorImpl*> seen;
  explicit Trainable(nn::ModuleBase& module) { module.visit(nn::Path(), *this); }
  void parameter(const nn::Path&, nn::Parameter& value) override {
    if (value.requires_grad() && seen.insert(value.impl()).second) parameters.push_back(value);
  }
};

struct Bucket : BucketMemory {
  // Of the present backward, by device: gradients still to come, the stream on which the last one came, and where in
  // the device's work that was.
  std::vector<std::size_t> expected;
  std::vector<std::optional<Stream>> arrived_on;
  std::vector<std::optional<Event>> complete;
  std::size_t devices_left = 0;
  bool launched = false, reduced = false;

  std::vector<std::uint64_t> versions;  // of the flats, by device, when they were last in lockstep

  void are_in_lockstep() {
    versions.clear();
    for (const Tensor& flat : flats) versions.push_back(flat.version());
  }
  // Whether they have not changed equally often since.
  bool has_drifted() const {
    const auto changes = [&](std::size_t d) { return flats[d].version() - versions[d]; };
    for (std::size_t d = 1; d < flats.size(); ++d)
      if (changes(d) != changes(0)) return true;
    return false;
  }
};

}  // namespace

struct GradientBuckets::Impl final : autograd::GradientSink {
  std::vector<Device> devices;
  BucketOptions options;
  std::vector<std::vector<Tensor>> parameters;  // each by device
  std::vector<Bucket> buckets;
  std::vector<std::size_t> bucket_of;  // by parameter
  std::vector<Stream> streams;         // of the communicator, by device
  std::optional<Communicator> communicator;
  bool summing = true;

  std::mutex mutex;  // guards the following, and what buckets keep of the present backward
  bool running = false;
  bool summing_now = false;
  std::vector<bool> arrives;       // by leaf: this backward brings its gradient
  std::vector<std::size_t> order;  // in which the primary's gradients came
  bool observed = false;           // buckets follow that order, or could not

  std::size_t count() const noexcept { return devices.size(); }
  std::size_t leaf(std::size_t entry, std::size_t device) const noexcept { return entry * count() + device; }

  // Moves gradients to buckets that are filled in the given order.
  void lay_out(std::span<const std::size_t> in_order) {
    BucketLayout layout = lay_out_buckets(parameters, in_order, options);
    buckets.clear();
    for (BucketMemory& memory : layout.buckets) {
      for (const std::size_t e : memory.entries) bucket_of[e] = buckets.size();
      static_cast<BucketMemory&>(buckets.emplace_back()) = std::move(memory);
    }
    for (GradientSlot& slot : layout.slots) {
      Meta& meta = *slot.meta;
      meta.grad_slot = std::move(slot.memory);
      if (meta.grad.defined()) meta.grad = meta.grad_slot;
      if (meta.share && meta.replaces_grad) {  // what was summed is divided otherwise now: to be summed again
        meta.replaces_grad = meta.scattered = false;
        if (meta.grad.defined()) primary(slot.entry).unsummed = true;
      }
      meta.share = slot.share;
    }
    for (Bucket& bucket : buckets) bucket.are_in_lockstep();
  }

  Meta& meta_at(std::size_t e, std::size_t d) const { return *autograd::meta_of(parameters[e][d]); }
  Meta& primary(std::size_t e) const { return meta_at(e, 0); }

  void begin(std::span<const std::size_t> leaves) override {
    const std::scoped_lock lock(mutex);
    if (running)
      throw AutogradError("[DataParallel] expected one backward at a time through a module, got a second one");
    bring_gradients();
    if (summing && !observed && !order.empty() && fit_their_slots()) observe();
    summing_now = summing;
    for (const std::size_t l : leaves) primary(l / count()).unsummed = true;
    if (summing_now) expect(leaves);
    running = true;
  }

  // Holding the lock. Counts what each bucket waits for.
  void expect(std::span<const std::size_t> leaves) {
    arrives.assign(parameters.size() * count(), false);
    for (const std::size_t l : leaves) arrives[l] = true;
    for (Bucket& bucket : buckets) {
      bucket.expected.assign(count(), 0);
      bucket.arrived_on.assign(count(), std::nullopt);
      bucket.complete.clear();
      bucket.complete.resize(count());
      bucket.launched = std::none_of(bucket.entries.begin(), bucket.entries.end(),
                                     [&](std::size_t e) { return primary(e).unsummed; });
      bucket.reduced = false;
      bucket.devices_left = count();
      for (const std::size_t e : bucket.entries)
        for (std::size_t d = 0; d < count(); ++d) bucket.expected[d] += arrives[leaf(e, d)];
    }
    try {
      for (Bucket& bucket : buckets)
        for (std::size_t d = 0; d < count() && !bucket.launched; ++d)
          if (bucket.expected[d] == 0) device_complete(bucket, d);
    } catch (...) {
      take_sums();
      throw;
    }
  }

  void ready(std::size_t l) override {
    const std::scoped_lock lock(mutex);
    if (!summing_now) return;
    const std::size_t e = l / count(), d = l % count();
    if (!observed && d == 0) order.push_back(e);
    count_down(buckets[bucket_of[e]], d);
  }

  void absent(std::size_t l) override {
    const std::scoped_lock lock(mutex);
    if (!summing_now) return;
    arrives[l] = false;
    count_down(buckets[bucket_of[l / count()]], l % count());
  }

  // Holding the lock.
  void count_down(Bucket& bucket, std::size_t d) {
    // Gradients that came on other streams are there when this one has waited for the last of those, and so on.
    const Stream here = current_stream(devices[d]);
    std::optional<Stream>& before = bucket.arrived_on[d];
    if (before && *before != here) here.wait(before->record());
    before = here;
    if (--bucket.expected[d] == 0) device_complete(bucket, d);
  }

  void end() override {
    const std::scoped_lock lock(mutex);
    running = false;
    if (std::exchange(summing_now, false)) take_sums();
    for (Bucket& bucket : buckets) bucket.are_in_lockstep();
  }

  // Holding the lock. After all buckets that could be were reduced.
  void take_sums() {
    for (std::size_t d = 0; d < count(); ++d) current_stream(devices[d]).wait(streams[d].record());
    for (Bucket& bucket : buckets) {
      if (!bucket.reduced) continue;
      for (const std::size_t e : bucket.entries) {
        if (!std::exchange(primary(e).unsummed, false) || !has_gradient(parameters[e])) continue;
        for (std::size_t d = 0; d < count(); ++d) {
          Meta& meta = meta_at(e, d);
          bump_version(meta.grad_slot);
          take_slot(meta, d, options.shard_optimizer_state);
        }
      }
    }
  }

  // What is in the slot is the gradient: the sum, or the device's share of it.
  void take_slot(Meta& meta, std::size_t d, bool scattered) const {
    meta.grad = meta.grad_slot;
    meta.scattered = scattered;
    // Each device keeps its share of what was summed, or the first one all; the next gradient replaces the rest.
    meta.replaces_grad = options.shard_optimizer_state || d != 0;
  }

  // Holding the lock. A summed gradient that was changed or set in the primary alone goes to the replicas.
  void bring_gradients() {
    for (Bucket& bucket : buckets) {
      const bool drifted = bucket.has_drifted();
      for (const std::size_t e : bucket.entries) {
        Meta& own = primary(e);
        if (own.unsummed || own.scattered || !own.grad.defined() || !own.grad.is_same(own.grad_slot)) continue;
        const auto lacks = [&](const Tensor& place) { return !autograd::meta_of(place)->grad.defined(); };
        if (!drifted && std::none_of(parameters[e].begin(), parameters[e].end(), lacks)) continue;
        for (std::size_t d = 0; d < count(); ++d) {
          Meta& meta = meta_at(e, d);
          if (d > 0) copy_values(meta.grad_slot, own.grad);
          take_slot(meta, d, false);
        }
      }
      bucket.are_in_lockstep();
    }
  }

  // Holding the lock. A value that was changed in the primary alone goes to the replicas.
  void bring_values() {
    const NoGrad guard;
    for (std::size_t e = 0; e < parameters.size(); ++e)
      for (std::size_t d = 1; d < count(); ++d)
        if (!are_in_lockstep(parameters[e][0], parameters[e][d]) && fits_its_slot(e, 0))
          bring_in_lockstep(parameters[e][0], parameters[e][d]);
  }

  // Whether the parameter is still what its gradient was made room for.
  bool fits_its_slot(std::size_t e, std::size_t d) const {
    const Tensor &own = parameters[e][d], &slot = meta_at(e, d).grad_slot;
    return slot.defined() && own.device() == slot.device() && own.dtype() == slot.dtype() &&
           own.sizes() == slot.sizes();
  }
  bool fit_their_slots() const {
    for (std::size_t e = 0; e < parameters.size(); ++e)
      for (std::size_t d = 0; d < count(); ++d)
        if (!fits_its_slot(e, d)) return false;
    return true;
  }

  // Holding the lock. What several backwards have left to be summed.
  void sum_now() {
    const auto entries = std::views::iota(std::size_t(0), parameters.size());
    if (std::ranges::none_of(entries, [&](std::size_t e) { return primary(e).unsummed; })) return;
    expect({});
    take_sums();
    for (Bucket& bucket : buckets) bucket.are_in_lockstep();
  }

  void settle() override {
    const std::scoped_lock lock(mutex);
    if (running)
      throw AutogradError("[DataParallel] expected gradients to be used after backward, got a use while it runs");
    bring_gradients();
    sum_now();
    bring_values();
  }

  bool is_running() override {
    const std::scoped_lock lock(mutex);
    return running;
  }

  // Another one has the module now, or replicas will be made again.
  void give_up() override {
    const std::scoped_lock lock(mutex);
    if (running)
      throw AutogradError("[DataParallel] expected replicas to be made after backward, got a call while it runs");
    bring_gradients();
    sum_now();
    gather_all_gradients();
    let_go();
  }

  static bool has_gradient(std::span<const Tensor> places) {
    return std::any_of(places.begin(), places.end(),
                       [](const Tensor& place) { return autograd::meta_of(place)->grad.defined(); });
  }

  // Holding the lock. All gradients of the bucket are there on device d, as far as its current stream has come.
  void device_complete(Bucket& bucket, std::size_t d) {
    bucket.complete[d].emplace(current_stream(devices[d]).record());
    if (--bucket.devices_left == 0) launch(bucket);
  }

  void launch(Bucket& bucket) {
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
  void reduce(const Bucket& bucket, std::vector<RankBuffers>& ranks) {
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

  void complete_gradient(std::size_t l) override {
    const std::scoped_lock lock(mutex);
    if (running) return;
    const std::size_t e = l / count();
    if (parameters.empty()) return;  // given up meanwhile
    if (primary(e).unsummed) {
      bring_gradients();
      sum_now();
    }
    if (is_scattered(parameters[e])) gather_gradients(std::span(&e, 1));
  }

  void gather_leaves(std::span<const std::size_t> leaves) override {
    const std::scoped_lock lock(mutex);
    std::vector<DividedTensor> all;
    for (const std::size_t l : leaves) {
      DividedTensor& parameter = all.emplace_back();
      for (const Tensor& place : parameters[l / count()])
        parameter.push_back({place, *autograd::meta_of(place)->share});
    }
    gather_shares(*communicator, all);
  }

  static bool is_scattered(std::span<const Tensor> places) {
    return std::all_of(places.begin(), places.end(), [](const Tensor& place) {
      const Meta& meta = *autograd::meta_of(place);
      return meta.scattered && meta.grad.defined();
    });
  }

  void gather_gradients(std::span<const std::size_t> which) {
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

  // Once, after the first backward: buckets in the order in which gradients came. For a while that takes the memory of
  // all gradients twice: where there is not so much, the present buckets do too.
  void observe() {
    std::vector<bool> seen(parameters.size());
    std::vector<std::size_t> all = order;
    for (const std::size_t e : order) seen[e] = true;
    for (std::size_t e = parameters.size(); e-- > 0;)
      if (!seen[e]) all.push_back(e);
    try {
      if (!are_divided_as(divide_into_buckets(parameters, all, options))) lay_out(all);
    } catch (const OutOfMemory&) {
    }
    observed = true;
  }

  // Whether these are the present buckets. The order inside of one does not matter: it is reduced as a whole.
  bool are_divided_as(std::vector<std::vector<std::size_t>> others) const {
    return std::ranges::equal(buckets, others, [](const Bucket& bucket, std::vector<std::size_t>& other) {
      std::vector<std::size_t> own = bucket.entries;
      std::ranges::sort(own);
      std::ranges::sort(other);
      return own == other;
    });
  }

  void gather_all_gradients() {
    std::vector<std::size_t> scattered;
    for (std::size_t e = 0; e < parameters.size(); ++e)
      if (is_scattered(parameters[e])) scattered.push_back(e);
    gather_gradients(scattered);
  }

  // What was not summed or gathered is dropped. A backward through a graph of the replicas would lose their gradients.
  void let_go() noexcept {
    for (const std::vector<Tensor>& places : parameters)
      for (std::size_t d = 0; d < count(); ++d) {
        Meta& meta = *autograd::meta_of(places[d]);
        if (meta.scattered || meta.unsummed) meta.grad = Tensor();
        meta.replicas.clear();
        meta.sink.reset();
        meta.grad_slot = Tensor();
        meta.share.reset();
        meta.scattered = meta.replaces_grad = meta.unsummed = false;
        meta.retired = d > 0;
      }
    parameters.clear();
    buckets.clear();
  }
};

GradientBuckets::GradientBuckets() = default;

GradientBuckets::GradientBuckets(std::span<nn::ModuleBase* const> modules, std::span<const Device> devices,
                                 const BucketOptions& options)
    : impl_(std::make_shared<Impl>()) {
  Impl& impl = *impl_;
  impl.devices.assign(devices.begin(), devices.end());
  impl.options = options;
  for (std::size_t d = 0; d < modules.size(); ++d) {
    const Trainable found(*modules[d]);
    impl.parameters.resize(found.parameters.size());
    for (std::size_t e = 0; e < found.parameters.size(); ++e) impl.parameters[e].push_back(found.parameters[e]);
  }
  if (impl.parameters.empty()) {
    impl_.reset();
    return;
  }
  for (const std::vector<Tensor>& places : impl.parameters)
    if (const auto former = autograd::make_meta(places[0]).sink.lock()) former->give_up();
  for (const Device& device : devices) impl.streams.push_back(Stream::from_pool(device, StreamPriority::kHigh));
  impl.communicator.emplace(impl.devices);
  std::vector<std::size_t> reversed(impl.parameters.size());
  std::iota(reversed.rbegin(), reversed.rend(), std::size_t(0));
  impl.bucket_of.resize(impl.parameters.size());
  impl.lay_out(reversed);
  for (std::size_t e = 0; e < impl.parameters.size(); ++e)
    for (std::size_t d = 0; d < devices.size(); ++d) {
      Meta& meta = autograd::make_meta(impl.parameters[e][d]);
      meta.sink = impl_;
      meta.sink_number = impl.leaf(e, d);
      meta.was_replicated = true;
      if (d > 0) autograd::make_meta(impl.parameters[e][0]).replicas.push_back(impl.parameters[e][d]);
    }
}

GradientBuckets::~GradientBuckets() {
  if (!impl_) return;
  try {
    impl_->give_up();
  } catch (...) {  // gradients that cannot be summed any more
    impl_->let_go();
  }
}

GradientBuckets::GradientBuckets(GradientBuckets&&) noexcept = default;
GradientBuckets& GradientBuckets::operator=(GradientBuckets&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

void GradientBuckets::set_summing(bool on) noexcept {
  if (impl_) impl_->summing = on;
}
void GradientBuckets::give_up() {
  if (impl_) impl_->give_up();
}
bool GradientBuckets::are_current() const noexcept { return !impl_ || !impl_->parameters.empty(); }
bool GradientBuckets::is_summing() const noexcept { return impl_ && impl_->summing; }
std::size_t GradientBuckets::bucket_count() const noexcept { return impl_ ? impl_->buckets.size() : 0; }

}  // namespace lockstep
