// Enqueues a kernel over tensors on the current stream of their device, and declares the memory that it reads and
// writes.
#pragma once

#include <array>
#include <span>

#include <lockstep/kernels/forms.h>

#include "kernels/geometry.h"

namespace lockstep {

/// Declares that work on `stream` uses the tensor. Its memory is then not reused before that work has ended.
inline void use_on(const StreamHandle& stream, const TensorImpl& tensor) {
  Storage& storage = *tensor.storage;
  if (detail::captures.load(std::memory_order_relaxed) != 0 && !storage.device->device.is_cpu()) [[unlikely]]
    detail::expect_in_step(stream);
  use_in_capture(storage);
  if (storage.transient) [[unlikely]]
    return storage.transient->use_on(stream);
  if (storage.stream_id != stream.id && storage.allocation.block)
    storage.device->allocator.record_stream(storage.allocation.block, stream);
}
inline void use_on(const StreamHandle& stream, const Tensor& tensor) { use_on(stream, *tensor.impl()); }

/// Throws InvalidArgument if the device needs a kernel's form for GPUs and the kernel has none (a kernel from outside
/// the library may have none).
void check_forms(const char* op, const DeviceState& device, bool has_device_form);

/// Enqueues a kernel over tensors of one device. Skips undefined tensors; at least one of `written` is defined. The
/// kernel must hold its arguments by value: it may run later.
void launch_kernel(const char* name, double flops, std::span<const Tensor* const> written,
                   std::span<const Tensor* const> read, KernelRef kernel);
template <class Kernel>
void launch(const char* name, double flops, std::span<const Tensor* const> written, std::span<const Tensor* const> read,
            const Kernel& kernel) {
  launch_kernel(name, flops, written, read, in_all_forms(kernel));
}
template <class Kernel>
void launch(const char* name, double flops, const Tensor& written, std::span<const Tensor* const> read,
            const Kernel& kernel) {
  launch(name, flops, std::array{&written}, read, kernel);
}

}  // namespace lockstep
