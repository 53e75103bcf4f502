// Enqueues a kernel over tensors: on the current stream of their device, with what it reads and writes declared.
#pragma once

#include <array>
#include <span>

#include <lockstep/tensor/kernels/forms.h>

#include "tensor/kernels/geometry.h"

namespace lockstep {

/// Work on `stream` uses the tensor: its memory must not be reused before that work has ended.
inline void use_on(const StreamHandle& stream, const TensorImpl& tensor) {
  Storage& storage = *tensor.storage;
  use_in_capture(storage);
  if (storage.stream_id != stream.id && storage.allocation.block)
    storage.device->allocator.record_stream(storage.allocation.block, stream);
}
inline void use_on(const StreamHandle& stream, const Tensor& tensor) { use_on(stream, *tensor.impl()); }

/// Throws InvalidArgument where the device needs a kernel's form for GPUs, and there is none: of a kernel from outside
/// of the library.
void check_forms(const char* op, const DeviceState& device, bool has_device_form);

/// Enqueues a kernel over tensors of one device. It must hold its arguments by value: it may run later.
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
