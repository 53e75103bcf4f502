#include "tensor/deferred_memory.h"

#include <lockstep/tensor/deferred_init.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "core/context.h"
#include "core/ranked_mutex.h"
#include "runtime/registry.h"
#include "tensor/transient_memory.h"

namespace lockstep {
namespace {

class DeferredMemory final : public TransientMemory {
 public:
  DeferredMemory(std::int64_t elements, DType dtype, DeferredValues values)
      : elements_(elements), dtype_(dtype), values_(std::move(values)) {}

  std::byte* bring() override {
    if (std::byte* const address = address_.load(std::memory_order_acquire)) return address;
    const Tensor made = values();
    return made.defined() ? keep(made) : address_.load(std::memory_order_acquire);
  }
  void use_on(const StreamHandle&) override {}  // the memory stays
  void publish() override {}
  Tensor own_part(const TensorImpl&) const override { return {}; }
  bool stays() const noexcept override { return true; }

  // False if the tensor has memory by now.
  bool set(DeferredValues values) {
    const std::scoped_lock lock(mutex_);
    if (memory_.defined()) return false;
    values_ = std::move(values);
    return true;
  }
  // Undefined if the tensor has memory by now. Without the lock, because a thread that computes may take other tasks.
  Tensor values() const {
    DeferredValues values;
    {
      const std::scoped_lock lock(mutex_);
      if (memory_.defined()) return {};
      values = values_;
    }
    Context fresh;  // not that of a step or of a pass that happens to use the tensor first
    const ContextScope scope(fresh);
    const Tensor flat = make_flat();
    if (values) values(flat);
    return flat;
  }
  void make_memory_to_write() {
    if (!address_.load(std::memory_order_acquire)) keep(make_flat());
  }

 private:
  Tensor make_flat() const { return make_tensor(device_state(Device()), {elements_}, dtype_); }
  // If several threads come here, the tensor gets the memory of the first one.
  std::byte* keep(const Tensor& made) {
    const std::scoped_lock lock(mutex_);
    if (!memory_.defined()) {
      memory_ = made;
      values_ = {};
      address_.store(made.impl()->data(), std::memory_order_release);
    }
    return address_.load(std::memory_order_relaxed);
  }

  const std::int64_t elements_;
  const DType dtype_;
  mutable RankedMutex<LockRank::deferred_memory> mutex_;  // guards the members below
  DeferredValues values_;                                 // empty: any values
  Tensor memory_;
  std::atomic<std::byte*> address_ = nullptr;
};

DeferredMemory* deferred_memory_of(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  if (!impl.contiguous || std::size_t(impl.numel) * size_of(impl.dtype) != impl.storage->bytes) return nullptr;
  return dynamic_cast<DeferredMemory*>(impl.storage->transient.get());
}

}  // namespace

Tensor make_deferred(const Shape& sizes, DType dtype, DeferredValues values) {
  Tensor tensor = make_without_memory(device_state(Device()), sizes, dtype);
  tensor.impl()->storage->transient = std::make_unique<DeferredMemory>(tensor.numel(), dtype, std::move(values));
  return tensor;
}

bool detail::set_deferred(const Tensor& tensor, DeferredValues values) {
  DeferredMemory* const memory = deferred_memory_of(tensor);
  return memory && memory->set(std::move(values));
}

Tensor detail::deferred_values(const Tensor& tensor) {
  const DeferredMemory* const memory = deferred_memory_of(tensor);
  const Tensor flat = memory ? memory->values() : Tensor();
  return flat.defined() ? make_view(flat, tensor.sizes(), tensor.impl()->strides, 0) : tensor;
}

void detail::make_memory_to_write(const Tensor& tensor) {
  if (DeferredMemory* const memory = deferred_memory_of(tensor)) memory->make_memory_to_write();
}

DeferredInit::DeferredInit() noexcept : outer_(std::exchange(context().defers_init, true)) {}
DeferredInit::~DeferredInit() { context().defers_init = outer_; }

}  // namespace lockstep
