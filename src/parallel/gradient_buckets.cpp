#include <lockstep/parallel/gradient_buckets.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/runtime/communicator.h>

#include "autograd/node.h"
#include "core/text.h"
#include "parallel/bucket_layout.h"
#include "parallel/gather_shares.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

using autograd::Meta;

struct Trainable final : nn::Visitor {
  std::vector<Tensor> parameters;
  explicit Trainable(nn::ModuleBase& module) { module.visit(nn::Path(), *this); }
  void parameter(const nn::Path&, nn::Parameter& value) override {
    if (value.requires_grad()) parameters.push_back(value);
  }
};

struct Bucket : BucketMemory {
  // Of the present backward, by device: gradients still to come, the stream on which the last one came, and where in
  // the device's work that was.
  std::vector<std::size_t> expected;
  std::vector<std::optional<Stream>> arrived_on;
  std::vector<std::optional<Event>> complete;
  std::size_t devices_left = 0;
  bool launched = false;
};

}  // namespace

struct GradientBuckets::Impl final : autograd::GradientSink {
  std::vector<Device> devices;
  BucketOptions options;
  std::vector<std::vector<Tensor>> parameters;  // each by device
  std::vector<Bucket> buckets;
  std::vector<std::size_t> bucket_of;  // by parameter
  std::vector<bool> touched;           // by parameter: some device accumulated since the last sum
  std::vector<Stream> streams;         // of the communicator, by device
  std::optional<Communicator> communicator;
  bool summing = true;

  std::mutex mutex;  // guards the following, and what buckets keep of the present backward
  bool running = false;
  bool summing_now = false;
  std::vector<bool> arrives;       // by leaf: this backward brings its gradient
  std::vector<std::size_t> order;  // in which the primary's gradients came
  bool observed = false;           // buckets follow that order

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
        touched[slot.entry] = touched[slot.entry] || meta.grad.defined();
      }
      meta.share = slot.share;
    }
  }

  void begin(std::span<const std::size_t> leaves) override {
    const std::scoped_lock lock(mutex);
    if (running)
      throw AutogradError("[DataParallel] expected one backward at a time through a module, got a second one");
    summing_now = summing;
    for (const std::size_t l : leaves) touched[l / count()] = true;
    if (summing_now) expect(leaves);
    running = true;
  }

  // Holding the lock. Counts what each bucket waits for.
  void expect(std::span<const std::size_t> leaves) {
    if (!observed && !order.empty()) observe();
    arrives.assign(parameters.size() * count(), false);
    for (const std::size_t l : leaves) arrives[l] = true;
    for (Bucket& bucket : buckets) {
      bucket.expected.assign(count(), 0);
      bucket.arrived_on.assign(count(), std::nullopt);
      bucket.complete.clear();
      bucket.complete.resize(count());
      bucket.launched =
          std::none_of(bucket.entries.begin(), bucket.entries.end(), [&](std::size_t e) { return touched[e]; });
      bucket.devices_left = count();
      for (const std::size_t e : bucket.entries)
        for (std::size_t d = 0; d < count(); ++d) bucket.expected[d] += arrives[leaf(e, d)];
    }
    for (Bucket& bucket : buckets)
      for (std::size_t d = 0; d < count() && !bucket.launched; ++d)
        if (bucket.expected[d] == 0) device_complete(bucket, d);
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

  void end(bool failed) override {
    const std::scoped_lock lock(mutex);
    running = false;
    if (!std::exchange(summing_now, false)) return;
    for (std::size_t d = 0; d < count(); ++d) current_stream(devices[d]).wait(streams[d].record());
    if (failed) return;
    for (Bucket& bucket : buckets)
      for (const std::size_t e : bucket.entries) {
        if (!bucket.launched || !touched[e]) continue;
        touched[e] = false;
        if (!has_gradient(parameters[e])) continue;
        for (std::size_t d = 0; d < count(); ++d) {
          Meta& meta = autograd::make_meta(parameters[e][d]);
          meta.grad = meta.grad_slot;
          bump_version(meta.grad_slot);
          // Each device keeps its share of what was summed, or the first one all; the next gradient replaces the rest.
          meta.scattered = options.shard_optimizer_state;
          meta.replaces_grad = meta.scattered || d != 0;
        }
      }
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

  void gather_gradient(std::size_t l) override {
    const std::scoped_lock lock(mutex);
    const std::size_t e = l / count();
    if (!running && is_scattered(parameters[e])) gather_gradients(std::span(&e, 1));
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

  // Once, after the first backward: buckets in the order in which gradients came.
  void observe() {
    std::vector<bool> seen(parameters.size());
    std::vector<std::size_t> all = order;
    for (const std::size_t e : order) seen[e] = true;
    for (std::size_t e = parameters.size(); e-- > 0;)
      if (!seen[e]) all.push_back(e);
    lay_out(all);
    observed = true;
  }

  void let_go() noexcept {
    try {
      std::vector<std::size_t> scattered;
      for (std::size_t e = 0; e < parameters.size(); ++e)
        if (is_scattered(parameters[e])) scattered.push_back(e);
      gather_gradients(scattered);
    } catch (...) {  // those that cannot be gathered any more are dropped
    }
    for (const std::vector<Tensor>& places : parameters)
      for (const Tensor& place : places)
        if (Meta* meta = autograd::meta_of(place)) {
          if (meta->scattered) meta->grad = Tensor();
          meta->replicas.clear();
          meta->grad_slot = Tensor();
          meta->share.reset();
          meta->scattered = meta->replaces_grad = false;
        }
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
  for (const Device& device : devices) impl.streams.push_back(Stream::from_pool(device, StreamPriority::kHigh));
  impl.communicator.emplace(impl.devices);
  std::vector<std::size_t> reversed(impl.parameters.size());
  std::iota(reversed.rbegin(), reversed.rend(), std::size_t(0));
  impl.bucket_of.resize(impl.parameters.size());
  impl.touched.resize(impl.parameters.size());
  impl.lay_out(reversed);
  for (std::size_t e = 0; e < impl.parameters.size(); ++e)
    for (std::size_t d = 0; d < devices.size(); ++d) {
      Meta& meta = autograd::make_meta(impl.parameters[e][d]);
      meta.sink = impl_;
      meta.sink_number = impl.leaf(e, d);
      if (d > 0) autograd::make_meta(impl.parameters[e][0]).replicas.push_back(impl.parameters[e][d]);
    }
}

GradientBuckets::~GradientBuckets() {
  if (impl_) impl_->let_go();
}

GradientBuckets::GradientBuckets(GradientBuckets&&) noexcept = default;
GradientBuckets& GradientBuckets::operator=(GradientBuckets&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

void GradientBuckets::set_summing(bool on) noexcept {
  if (impl_) impl_->summing = on;
}
bool GradientBuckets::is_summing() const noexcept { return impl_ && impl_->summing; }
std::size_t GradientBuckets::bucket_count() const noexcept { return impl_ ? impl_->buckets.size() : 0; }

}  // namespace lockstep
