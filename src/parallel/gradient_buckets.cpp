#include <lockstep/parallel/gradient_buckets.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/runtime/drain.h>

#include "parallel/gradient_buckets_impl.h"
#include "parallel/in_lockstep.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

using autograd::Meta;

// What gets a gradient, buffers too. Each once, though the module may name it twice.
struct Trainable final : nn::Visitor {
  std::vector<Tensor> parameters;
  std::unordered_set<const TensorImpl*> seen;
  explicit Trainable(nn::ModuleBase& module) { module.visit(nn::Path(), *this); }
  void parameter(const nn::Path&, nn::Parameter& value) override { add(value); }
  void buffer(const nn::Path&, nn::Buffer& value) override { add(value); }
  void add(const nn::State& value) {
    if (value.requires_grad() && seen.insert(value.impl()).second) parameters.push_back(value);
  }
};

}  // namespace

// Moves gradients to buckets that are filled in the given order.
void GradientBuckets::Impl::lay_out(std::span<const std::size_t> in_order) {
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
  for (GradientBucket& bucket : buckets) bucket.are_in_lockstep();
}

// Once, after the first backward: buckets in the order in which it came to the leaves. For a while that takes the
// memory of all gradients twice: where there is not so much, the present buckets do too.
void GradientBuckets::Impl::observe() {
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
bool GradientBuckets::Impl::are_divided_as(std::vector<std::vector<std::size_t>> others) const {
  return std::ranges::equal(buckets, others, [](const GradientBucket& bucket, std::vector<std::size_t>& other) {
    std::vector<std::size_t> own = bucket.entries;
    std::ranges::sort(own);
    std::ranges::sort(other);
    return own == other;
  });
}

void GradientBuckets::Impl::settle() {
  const std::scoped_lock lock(mutex);
  if (running)
    throw AutogradError("[DataParallel] expected gradients to be used after backward, got a use while it runs");
  bring_gradients();
  sum_now();
  bring_values();
}

// A summed gradient that was changed or set in the primary alone goes to the replicas.
void GradientBuckets::Impl::bring_gradients() {
  for (GradientBucket& bucket : buckets) {
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

// A value that was changed in the primary alone goes to the replicas.
void GradientBuckets::Impl::bring_values() {
  const NoGrad guard;
  for (std::size_t e = 0; e < parameters.size(); ++e)
    for (std::size_t d = 1; d < count(); ++d)
      if (!are_in_lockstep(parameters[e][0], parameters[e][d]) && fits_its_slot(e, 0))
        bring_in_lockstep(parameters[e][0], parameters[e][d]);
}

// Whether the parameter is still what its gradient was made room for.
bool GradientBuckets::Impl::fits_its_slot(std::size_t e, std::size_t d) const {
  const Tensor &own = parameters[e][d], &slot = meta_at(e, d).grad_slot;
  return slot.defined() && own.device() == slot.device() && own.dtype() == slot.dtype() && own.sizes() == slot.sizes();
}

bool GradientBuckets::Impl::fit_their_slots() const {
  for (std::size_t e = 0; e < parameters.size(); ++e)
    for (std::size_t d = 0; d < count(); ++d)
      if (!fits_its_slot(e, d)) return false;
  return true;
}

// Another one has the module now, or replicas will be made again.
void GradientBuckets::Impl::give_up() {
  const std::scoped_lock lock(mutex);
  if (running)
    throw AutogradError("[DataParallel] expected replicas to be made after backward, got a call while it runs");
  if (std::ranges::any_of(devices, is_lost)) return let_go();  // with it went what it had of the sums
  detail::draining(devices, [this] {
    bring_gradients();
    sum_now();
    gather_all_gradients();
  });
  let_go();
}

bool GradientBuckets::Impl::has_gradient(std::size_t e) const {
  return std::ranges::any_of(parameters[e],
                             [](const Tensor& place) { return autograd::meta_of(place)->grad.defined(); });
}

bool GradientBuckets::Impl::is_scattered(std::size_t e) const {
  return std::ranges::all_of(parameters[e], [](const Tensor& place) {
    const Meta& meta = *autograd::meta_of(place);
    return meta.scattered && meta.grad.defined();
  });
}

void GradientBuckets::Impl::gather_all_gradients() {
  std::vector<std::size_t> scattered;
  for (std::size_t e = 0; e < parameters.size(); ++e)
    if (is_scattered(e)) scattered.push_back(e);
  gather_gradients(scattered);
}

// What was not summed or gathered is dropped. A backward through a graph of the replicas would lose their gradients.
void GradientBuckets::Impl::let_go() noexcept {
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

GradientBuckets::GradientBuckets() = default;

GradientBuckets::GradientBuckets(std::span<nn::ModuleBase* const> modules, std::span<const Device> devices,
                                 const BucketOptions& options, Summing summing)
    : impl_(std::make_shared<Impl>()) {
  Impl& impl = *impl_;
  impl.devices.assign(devices.begin(), devices.end());
  impl.options = options;
  impl.summing = std::move(summing);
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
  for (const Device& device : devices) impl.streams.push_back(Stream::from_pool(device, StreamPriority::high));
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

void GradientBuckets::give_up() {
  if (impl_) impl_->give_up();
}
bool GradientBuckets::are_current() const noexcept { return !impl_ || !impl_->parameters.empty(); }
std::size_t GradientBuckets::bucket_count() const noexcept { return impl_ ? impl_->buckets.size() : 0; }

}  // namespace lockstep
