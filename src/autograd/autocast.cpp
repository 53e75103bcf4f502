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

  const TensorImpl& impl = *x.impl();
  DeviceState& device = *impl.storage->device;
  const Key key = {&impl, current_stream(device.device).id(), grad_enabled()};
  const std::uint64_t version = x.version();
  {
    const std::scoped_lock lock(mutex_);
    if (const auto at = kept_.find(key);
        at != kept_.end() && at->second.version == version && at->second.memory == impl.storage->transient.get())
      return at->second.result;
  }
  Tensor result = transient_form(x, dtype_);
  if (!result.defined()) result = copied(x, device, dtype_);
  if (records(x)) attach(std::make_shared<CastNode>(x), std::span(&result, 1));
  const std::scoped_lock lock(mutex_);
  kept_.insert_or_assign(key, Kept{x, version, impl.storage->transient.get(), result});
  return result;
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
  return std::make_unique<AutocastRegion>(dtype);
}

}  // namespace

Autocast::Autocast(DType dtype) : outer_(context().autocast), own_(region_in(outer_, dtype)) {
  if (own_) context().autocast = own_.get();
}
Autocast::~Autocast() { context().autocast = outer_; }

NoAutocast::NoAutocast() noexcept : outer_(std::exchange(context().autocast, nullptr)) {}
NoAutocast::~NoAutocast() { context().autocast = outer_; }

}  // namespace lockstep
