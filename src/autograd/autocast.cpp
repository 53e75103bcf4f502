#include <lockstep/autograd/autocast.h>

#include <mutex>
#include <utility>

#include <lockstep/core/error.h>

#include "autograd/autocast_region.h"
#include "autograd/record.h"
#include "core/context.h"
#include "core/text.h"
#include "tensor/copy.h"

namespace lockstep {
namespace autograd {
namespace {

// The node of a cast. Unlike a LambdaNode it stays usable after a backward, because several graphs share a cached cast.
// It saves no tensors, so there are none to release.
class CastNode final : public Node {
 public:
  CastNode(const Tensor& x) : Node("To", x.device(), {gradient_edge(x)}), was_(x.dtype()) {}

  Gradients backward(const Gradients& output_gradients) override {
    const Tensor& g = output_gradients[0];
    if (const Tensor place = grad_bucket_view(0); place.defined()) {
      copy_values(place, g);
      return {place};
    }
    return {g.to(was_)};
  }

 private:
  const DType was_;
};

// A parameter that is divided between devices, or a view of one, comes to a device in 16 bits: no copy of it is kept.
Tensor transient_form(const Tensor& x, DType dtype) {
  const auto& memory = x.impl()->storage->transient;
  return memory ? memory->converted(x, dtype) : Tensor();
}

}  // namespace

Tensor AutocastRegion::cast(const Tensor& x) {
  if (!x.defined() || x.dtype() == dtype_ || !is_floating(x.dtype()) || x.dtype() == kFloat64) return x;
  const Meta* const meta = meta_of(x);
  if (!meta || !meta->leaf_requires_grad || meta->grad_fn) {
    Tensor form = transient_form(x, dtype_);
    if (!form.defined()) return x.to(dtype_);
    if (records(x)) attach(std::make_shared<CastNode>(x), std::span(&form, 1));
    return form;
  }

  if (Tensor before = kept(x); before.defined()) return before;
  if (Tensor form = transient_form(x, dtype_); form.defined()) return keep(x, form);
  const std::vector<Tensor> leaves = cast_together(x);
  if (leaves.size() == 1) return keep(x, copied(x, *x.impl()->storage->device, dtype_));
  std::vector<Tensor> results;
  results.reserve(leaves.size());
  for (const Tensor& leaf : leaves) results.push_back(make_tensor(*leaf.impl()->storage->device, leaf.sizes(), dtype_));
  round_together(results, leaves);
  for (std::size_t i = 1; i < leaves.size(); ++i) keep(leaves[i], results[i]);
  return keep(x, results[0]);
}

AutocastRegion::Key AutocastRegion::key_of(const Tensor& leaf) const {
  const TensorImpl& impl = *leaf.impl();
  return {&impl, current_stream(impl.storage->device->device).id(), grad_enabled()};
}

// The cast of the leaf's present values; undefined if there is none.
Tensor AutocastRegion::kept(const Tensor& leaf) {
  const Key key = key_of(leaf);
  const std::scoped_lock lock(mutex_);
  const auto at = kept_.find(key);
  const bool is_present = at != kept_.end() && at->second.version == leaf.version() &&
                          at->second.memory == leaf.impl()->storage->transient.get();
  return is_present ? at->second.result : Tensor();
}

Tensor AutocastRegion::keep(const Tensor& leaf, Tensor result) {
  const std::uint64_t version = leaf.version();
  if (records(leaf)) attach(std::make_shared<CastNode>(leaf), std::span(&result, 1));
  const Key key = key_of(leaf);
  const std::scoped_lock lock(mutex_);
  kept_.insert_or_assign(key, Kept{leaf, version, leaf.impl()->storage->transient.get(), result});
  return result;
}

// The leaf, and the leaves that are cast with it: those of its optimizer, on its device, that some region has cast
// before, and that this region has not cast yet. Not without gradients: an evaluation may use few of them.
std::vector<Tensor> AutocastRegion::cast_together(const Tensor& leaf) {
  std::vector<Tensor> leaves = {leaf};
  const auto can_be_together = [](const Tensor& x) {
    const TensorImpl& impl = *x.impl();
    return impl.dtype == kFloat32 && impl.contiguous && impl.numel > 0 && !impl.storage->transient;
  };
  Meta& meta = *meta_of(leaf);
  meta.is_cast.store(true, std::memory_order_relaxed);
  if (!casts_groups_ || !grad_enabled() || !can_be_together(leaf)) return leaves;
  const Replica* const replica = replica_of(leaf);
  const Tensor& primary = replica ? replica->parameter->replicas()[0].tensor : leaf;
  const auto group = meta_of(primary)->cast_group.lock();
  if (!group) return leaves;
  for (const Tensor& parameter : group->parameters) {
    const Tensor* there = &parameter;
    if (replica) {
      const Replica* const own = replica_of(parameter);
      if (!own || own->parameter->replicas().size() <= replica->index) continue;
      there = &own->parameter->replicas()[replica->index].tensor;
    }
    const Meta* const of_there = meta_of(*there);
    if (there->is_same(leaf) || there->impl()->storage->device != leaf.impl()->storage->device ||
        !can_be_together(*there) || !of_there || !of_there->leaf_requires_grad || of_there->grad_fn ||
        !of_there->is_cast.load(std::memory_order_relaxed) || kept(*there).defined())
      continue;
    leaves.push_back(*there);
  }
  return leaves;
}

}  // namespace autograd

using autograd::AutocastRegion;

std::optional<DType> autocast_dtype() noexcept {
  if (const AutocastRegion* const region = context().autocast) return region->dtype();
  return std::nullopt;
}

namespace {

std::unique_ptr<AutocastRegion> region_in(const AutocastRegion* outer, DType dtype) {
  if (dtype != kBFloat16 && dtype != kFloat16)
    throw DTypeError(text("[Autocast] expected bfloat16 or float16, got ", dtype));
  if (outer && outer->dtype() == dtype) return nullptr;
  // The function that checkpoint() runs again uses few of the parameters.
  return std::make_unique<AutocastRegion>(dtype, context().save_listener == nullptr);
}

}  // namespace

Autocast::Autocast(DType dtype) : outer_(context().autocast), own_(region_in(outer_, dtype)) {
  if (own_) context().autocast = own_.get();
}
Autocast::~Autocast() { context().autocast = outer_; }

NoAutocast::NoAutocast() noexcept : outer_(std::exchange(context().autocast, nullptr)) {}
NoAutocast::~NoAutocast() { context().autocast = outer_; }

}  // namespace lockstep
