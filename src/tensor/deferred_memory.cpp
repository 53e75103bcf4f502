#include "tensor/deferred_memory.h"

#include <lockstep/tensor/deferred_init.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
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

  // False if the tensor has memory by now, or should get it. `whole`: the values before do not matter.
  bool set(const Tensor& tensor, bool whole, DeferredValues values) {
    const std::scoped_lock lock(mutex_);
    constexpr int kMostParts = 64;  // each adds a level of calls
    if (memory_.defined()) return false;
    if (whole) {
      values_ = std::move(values);
      parts_ = 0;
      return true;
    }
    if (++parts_ > kMostParts) return false;
    const TensorImpl& view = *tensor.impl();
    values_ = [before = std::move(values_), values = std::move(values), sizes = view.sizes, strides = view.strides,
               offset = view.offset](const Tensor& flat) {
      if (before) before(flat);
      values(make_view(flat, sizes, strides, offset));
    };
    return true;
  }
  // Nothing if the tensor has memory by now.
  std::optional<DeferredValues> function() const {
    const std::scoped_lock lock(mutex_);
    return memory_.defined() ? std::nullopt : std::optional(values_);
  }
  // Undefined if the tensor has memory by now. Without the lock, because a thread that computes may take other tasks.
  Tensor values() const {
    const std::optional<DeferredValues> values = function();
    if (!values) return {};
    Context fresh;  // not that of a step or of a pass that happens to use the tensor first
    const ContextScope scope(fresh);
    const WithoutEnqueuing work_lets_nothing_go;  // which the operation that uses this tensor has brought
    const Tensor flat = make_tensor(device_state(Device()), {elements_}, dtype_);
    if (*values) (*values)(flat);
    return flat;
  }

 private:
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
  int parts_ = 0;                                         // values of views that values_ writes after the whole
  Tensor memory_;
  std::atomic<std::byte*> address_ = nullptr;
};

DeferredMemory* deferred_memory_of(const Tensor& tensor) {
  return dynamic_cast<DeferredMemory*>(tensor.impl()->storage->transient.get());
}

bool covers_storage(const TensorImpl& tensor) {
  return tensor.contiguous && std::size_t(tensor.numel) * size_of(tensor.dtype) == tensor.storage->bytes;
}

}  // namespace

Tensor make_deferred(const Shape& sizes, DType dtype, DeferredValues values) {
  Tensor tensor = make_without_memory(device_state(Device()), sizes, dtype);
  tensor.impl()->storage->transient = std::make_unique<DeferredMemory>(tensor.numel(), dtype, std::move(values));
  return tensor;
}

bool detail::set_deferred(const Tensor& tensor, DeferredValues values) {
  DeferredMemory* const memory = deferred_memory_of(tensor);
  return memory && memory->set(tensor, covers_storage(*tensor.impl()), std::move(values));
}

Tensor detail::deferred_values(const Tensor& tensor) {
  const DeferredMemory* const memory = covers_storage(*tensor.impl()) ? deferred_memory_of(tensor) : nullptr;
  const Tensor flat = memory ? memory->values() : Tensor();
  return flat.defined() ? make_view(flat, tensor.sizes(), tensor.impl()->strides, 0) : tensor;
}

Tensor copy_deferred(const Tensor& tensor) {
  const DeferredMemory* const memory = covers_storage(*tensor.impl()) ? deferred_memory_of(tensor) : nullptr;
  std::optional<DeferredValues> values = memory ? memory->function() : std::nullopt;
  return values ? make_deferred(tensor.sizes(), tensor.dtype(), std::move(*values)) : Tensor();
}

DeferredInit::DeferredInit() noexcept : outer_(std::exchange(context().defers_init, true)) {}
DeferredInit::~DeferredInit() { context().defers_init = outer_; }

}  // namespace lockstep
