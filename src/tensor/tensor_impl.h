// TensorImpl, the object behind a Tensor: geometry over a Storage, which owns memory of one device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include <lockstep/tensor/tensor.h>

#include "runtime/registry.h"
#include "tensor/transient_memory.h"

namespace lockstep {

struct PinnedBlock;

/// Memory of one device, shared by all views of one array.
struct Storage {
  std::atomic<std::uint32_t> references = 1;
  std::atomic<std::uint32_t> captures = 0;  ///< Those of the references that captured steps hold (ReplayValues).
  DeviceState* device = nullptr;
  CachingAllocator::Allocation allocation;
  int stream_id = 0;  ///< The stream on which it was allocated.
  std::size_t bytes = 0;
  PinnedBlock* pinned = nullptr;               ///< Page-locked memory, not from the CPU's allocator.
  std::shared_ptr<void> borrowed;              ///< The caller's memory (from_blob), released with this.
  std::unique_ptr<TransientMemory> transient;  ///< Set if the memory is transient; `allocation` is then empty.
  std::atomic<std::uint64_t> version = 0;      ///< The number of in-place changes so far, through any view.
  std::uint64_t checkpoint = 0;                ///< The checkpoint() whose function made it; 0: none, or module state.
  std::uint64_t made_in = 0;                   ///< Id of the captured step that made it (ReplayValues); 0: none.

  /// Allocates on the current stream of the device. Throws OutOfMemory.
  static Storage* make(DeviceState& device, std::size_t bytes, MayWait may_wait = MayWait::yes);
  /// On the CPU, page-locked for the GPUs. Throws InvalidArgument naming `op` if there are no GPUs, and OutOfMemory.
  static Storage* make_pinned(const char* op, std::size_t bytes);
  /// The address of the first byte. If the memory is transient, brings it to the device (TransientMemory::bring).
  std::byte* memory() const {
    if (transient) [[unlikely]]
      return transient->bring();
    return static_cast<std::byte*>(allocation.memory);
  }
  void retain() noexcept { references.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;
};

/// The autograd layer's data of a tensor.
struct AutogradState {
  virtual ~AutogradState() = default;
  virtual std::string_view grad_fn_name() const noexcept = 0;
  virtual bool requires_grad() const noexcept = 0;
};

struct TensorImpl {
  std::atomic<std::uint32_t> references = 1;
  DType dtype = kFloat32;
  bool contiguous = true;
  std::int64_t numel = 0;
  std::int64_t offset = 0;  ///< Position of the first element in the storage, in elements.
  Storage* storage = nullptr;
  Shape sizes;
  Shape strides;
  std::unique_ptr<AutogradState> autograd;
  std::atomic<std::uint32_t> saves = 0;        ///< Number of operations that saved this or a view of it.
  std::atomic<std::uint32_t> views = 0;        ///< Number of tensors that have this as their base.
  bool follows_base = false;                   ///< If the base's grad_fn changes, the view's is made anew from it.
  bool hides_graph = false;                    ///< It is a view, made under NoGrad, of a tensor that needs a gradient.
  Tensor base;                                 ///< The base of a differentiable view (autograd/views.h).
  std::atomic<const void*> base_fn = nullptr;  ///< The base's grad_fn when the view's grad_fn was made.

  TensorImpl() = default;
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;
  ~TensorImpl() {
    if (follows_base) base.impl()->views.fetch_sub(1, std::memory_order_release);
    if (storage) storage->release();
  }

  /// The address of the first element. If the memory is transient, brings it to the device; the caller must then
  /// enqueue the work that uses the address (transient_memory.h).
  std::byte* data() const { return storage->memory() + offset * std::int64_t(size_of(dtype)); }
};

[[noreturn]] void throw_undefined(const char* op);
[[noreturn]] void throw_device_mismatch(const char* op, const Tensor& a, const Tensor& b);

/// The object behind a tensor; throws InvalidArgument naming `op` if there is none.
inline TensorImpl& impl_of(const char* op, const Tensor& tensor) {
  if (TensorImpl* impl = tensor.impl()) return *impl;
  throw_undefined(op);
}

/// True if elements of that geometry are dense, in row-major order.
bool is_dense(const Shape& sizes, const Shape& strides) noexcept;

/// A new contiguous tensor, uninitialized, without a gradient.
Tensor make_tensor(DeviceState& device, const Shape& sizes, DType dtype, MayWait may_wait = MayWait::yes);
/// make_tensor() in page-locked memory, on the CPU. Throws as Storage::make_pinned.
Tensor make_pinned(const char* op, const Shape& sizes, DType dtype);
/// Like make_tensor(), but without memory, which the tensor must be given before its elements are used.
Tensor make_without_memory(DeviceState& device, const Shape& sizes, DType dtype);
bool is_without_memory(const Tensor& tensor) noexcept;  ///< True until such a tensor is given memory.
/// True if nobody else uses the tensor's memory: no other tensor but the bases of this view, no captured step that did
/// not make it, no stream but the current one, and no owner outside.
bool is_sole_user(const Tensor& tensor) noexcept;
/// Exchanges the memory of two storages of one device.
void swap_memory(Storage& a, Storage& b) noexcept;
/// A tensor of another geometry over the same storage, without a gradient.
Tensor make_view(const Tensor& base, const Shape& sizes, const Shape& strides, std::int64_t offset);

void wait_for_copies_from(PinnedBlock& block);
/// Called before the host writes: waits for the copies to GPUs that read the tensor, if it is pinned. Throws the errors
/// of their streams.
inline void wait_for_copies_from(const TensorImpl& tensor) {
  if (tensor.storage->pinned) wait_for_copies_from(*tensor.storage->pinned);
}

namespace detail {
extern std::atomic<int> captures;  // number of steps that are being captured
void use_in_capture(Storage& storage) noexcept;
/// Throws InvalidArgument if a step captures the stream, and this thread's work does not belong to that step.
void expect_in_step(const StreamHandle& stream);
}  // namespace detail

/// Called when work that uses the storage is enqueued. If a step captures this work, the step keeps the storage alive.
inline void use_in_capture(Storage& storage) noexcept {
  if (detail::captures.load(std::memory_order_relaxed) != 0) [[unlikely]]
    detail::use_in_capture(storage);
}

/// Counts a change in place.
inline void bump_version(const TensorImpl& tensor) noexcept {
  use_in_capture(*tensor.storage);
  tensor.storage->version.fetch_add(1, std::memory_order_relaxed);
}
inline void bump_version(const Tensor& tensor) noexcept { bump_version(*tensor.impl()); }

/// Throws DeviceMismatch naming `op` unless all tensors are on one device.
template <class... Tensors>
void check_same_device(const char* op, const Tensor& first, const Tensors&... rest) {
  const DeviceState* device = impl_of(op, first).storage->device;
  const auto check = [&](const Tensor& other) {
    if (impl_of(op, other).storage->device != device) throw_device_mismatch(op, first, other);
  };
  (check(rest), ...);
}

}  // namespace lockstep
