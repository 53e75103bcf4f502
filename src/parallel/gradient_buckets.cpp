#include <lockstep/parallel/gradient_buckets.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/runtime/communicator.h>

#include "autograd/node.h"
#include "core/text.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

struct Trainable final : nn::Visitor {
  std::vector<Tensor> parameters;
  explicit Trainable(nn::ModuleBase& module) { module.visit(nn::Path(), *this); }
  void parameter(const nn::Path&, nn::Parameter& value) override {
    if (value.requires_grad()) parameters.push_back(value);
  }
};

// One parameter on all devices.
struct Entry {
  std::vector<Tensor> places;  // by device
  std::size_t bucket = 0;
  bool touched = false;  // some device accumulated since the last sum
};

struct Bucket {
  std::vector<std::size_t> entries;
  std::vector<Tensor> flats;  // by device
  // Of the present backward, by device: gradients still to come, and where in the device's work the last one came.
  std::vector<std::size_t> expected;
  std::vector<std::optional<Event>> complete;
  std::size_t devices_left = 0;
  bool launched = false;
};

}  // namespace

struct GradientBuckets::Impl final : autograd::GradientSink {
  std::vector<Device> devices;
  BucketOptions options;
  std::vector<Entry> entries;
  std::vector<Bucket> buckets;
  std::vector<Stream> streams;  // of the communicator, by device
  std::optional<Communicator> communicator;
  bool summing = true;

  std::mutex mutex;  // guards the following, and what buckets keep of the present backward
  bool running = false;
  bool summing_now = false;
  std::vector<bool> arrives;           // by leaf: this backward brings its gradient
  std::vector<std::size_t> order;      // in which the primary's gradients came
  bool observed = false;               // buckets follow that order

  std::size_t count() const noexcept { return devices.size(); }
  std::size_t leaf(std::size_t entry, std::size_t device) const noexcept { return entry * count() + device; }

  // Divides the entries in the given order into buckets of one dtype, and moves present gradients there.
  void lay_out(const std::vector<std::size_t>& in_order) {
    std::vector<Bucket> laid;
    std::vector<std::size_t> bytes;
    std::vector<std::optional<std::size_t>> open(std::size_t(kFloat64) + 1);  // by dtype
    for (const std::size_t e : in_order) {
      const Tensor& primary = entries[e].places[0];
      const std::size_t size = std::size_t(primary.numel()) * size_of(primary.dtype());
      auto& current = open[std::size_t(primary.dtype())];
      const std::size_t limit = current && *current == 0 ? options.first_bytes : options.bytes;
      if (!current || (bytes[*current] > 0 && bytes[*current] + size > limit)) {
        current = laid.size();
        laid.emplace_back();
        bytes.push_back(0);
      }
      laid[*current].entries.push_back(e);
      bytes[*current] += size;
    }
    const NoGrad guard;
    for (std::size_t b = 0; b < laid.size(); ++b) {
      Bucket& bucket = laid[b];
      std::int64_t elements = 0;
      for (const std::size_t e : bucket.entries) elements += entries[e].places[0].numel();
      for (std::size_t d = 0; d < count(); ++d) {
        const DType dtype = entries[bucket.entries[0]].places[0].dtype();
        bucket.flats.push_back(make_tensor(device_state(devices[d]), {elements}, dtype));
        fill_values(bucket.flats[d], 0);
        std::int64_t at = 0;
        for (const std::size_t e : bucket.entries) {
          const Tensor& parameter = entries[e].places[d];
          autograd::Meta& meta = autograd::make_meta(parameter);
          meta.grad_slot = make_view(bucket.flats[d], parameter.sizes(), contiguous_strides(parameter.sizes()), at);
          if (meta.grad.defined()) {
            copy_values(meta.grad_slot, meta.grad);
            meta.grad = meta.grad_slot;
          }
          at += parameter.numel();
        }
      }
      for (const std::size_t e : bucket.entries) entries[e].bucket = b;
    }
    buckets = std::move(laid);
  }

  void begin(std::span<const std::size_t> leaves) override {
    const std::scoped_lock lock(mutex);
    if (std::exchange(running, true))
      throw AutogradError("[DataParallel] expected one backward at a time through a module, got a second one");
    summing_now = summing;
    for (const std::size_t l : leaves) entries[l / count()].touched = true;
    if (!summing_now) return;
    if (!observed && !order.empty()) observe();
    arrives.assign(entries.size() * count(), false);
    for (const std::size_t l : leaves) arrives[l] = true;
    for (Bucket& bucket : buckets) {
      bucket.expected.assign(count(), 0);
      bucket.complete.clear();
      bucket.complete.resize(count());
      bucket.launched = std::none_of(bucket.entries.begin(), bucket.entries.end(), [&](std::size_t e) { return entries[e].touched; });
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
    Bucket& bucket = buckets[entries[e].bucket];
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
        if (!bucket.launched || !std::exchange(entries[e].touched, false) || !has_gradient(entries[e])) continue;
        for (std::size_t d = 0; d < count(); ++d) {
          autograd::Meta& meta = autograd::make_meta(entries[e].places[d]);
          meta.grad = meta.grad_slot;
          bump_version(meta.grad_slot);
          meta.replaces_grad = d != 0;  // the first device keeps what was summed; the others bring their own anew
        }
      }
  }

  static bool has_gradient(const Entry& entry) {
    return std::any_of(entry.places.begin(), entry.places.end(), [](const Tensor& t) { return t.grad().defined(); });
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
        const autograd::Meta& meta = *autograd::meta_of(entries[e].places[d]);
        if (arrives[leaf(e, d)]) continue;
        if (!meta.grad.defined() || meta.replaces_grad)
          fill_values(meta.grad_slot, 0);
        else if (!meta.grad.is_same(meta.grad_slot))
          copy_values(meta.grad_slot, meta.grad);
      }
      void* const memory = bucket.flats[d].impl()->data();
      bucket.flats[d].record_stream(streams[d]);
      ranks.push_back({streams[d], memory, memory});
    }
    communicator->all_reduce(ranks, std::size_t(bucket.flats[0].numel()), bucket.flats[0].dtype());
  }

  // Once, after the first backward: buckets in the order in which gradients came.
  void observe() {
    observed = true;
    std::vector<bool> seen(entries.size());
    for (const std::size_t e : order) seen[e] = true;
    for (std::size_t e = entries.size(); e-- > 0;)
      if (!seen[e]) order.push_back(e);
    lay_out(order);
  }

  void let_go() noexcept {
    for (const Entry& entry : entries)
      for (const Tensor& place : entry.places)
        if (autograd::Meta* meta = autograd::meta_of(place)) {
          meta->replicas.clear();
          meta->grad_slot = Tensor();
          meta->replaces_grad = false;
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
    impl.entries.resize(found.parameters.size());
    for (std::size_t e = 0; e < found.parameters.size(); ++e) impl.entries[e].places.push_back(found.parameters[e]);
  }
  if (impl.entries.empty()) {
    impl_.reset();
    return;
  }
  for (const Device& device : devices) impl.streams.push_back(Stream::from_pool(device, StreamPriority::kHigh));
  impl.communicator.emplace(impl.devices);
  std::vector<std::size_t> reversed(impl.entries.size());
  std::iota(reversed.rbegin(), reversed.rend(), std::size_t(0));
  impl.lay_out(reversed);
  for (std::size_t e = 0; e < impl.entries.size(); ++e)
    for (std::size_t d = 0; d < devices.size(); ++d) {
      autograd::Meta& meta = autograd::make_meta(impl.entries[e].places[d]);
      meta.sink = impl_;
      meta.sink_number = impl.leaf(e, d);
      if (d > 0) autograd::make_meta(impl.entries[e].places[0]).replicas.push_back(impl.entries[e].places[d]);
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
