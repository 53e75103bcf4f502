// Enqueues a kernel over tensors: on the current stream of their device, with what it reads and writes declared.
#pragma once

#include <array>
#include <initializer_list>

#include <lockstep/tensor/kernels/forms.h>

#include "tensor/kernels/geometry.h"

namespace lockstep {

/// Work on `stream` uses the tensor: its memory must not be reused before that work has ended.
inline void use_on(const StreamHandle& stream, const TensorImpl& tensor) {
  Storage& storage = *tensor.storage;
  if (storage.stream_id != stream.id && storage.allocation.block)
    storage.device->allocator.record_stream(storage.allocation.block, stream);
}
inline void use_on(const StreamHandle& stream, const Tensor& tensor) { use_on(stream, *tensor.impl()); }

/// Throws InvalidArgument where the device needs a kernel's form for GPUs, and there is none: of a kernel from outside
/// of the library.
void check_forms(const char* op, const DeviceState& device, bool has_device_form);

template <class Kernel>
void enqueue(DeviceState& device, const StreamHandle& stream, const LaunchInfo& info, const Kernel& kernel) {
#ifdef LOCKSTEP_DEVICE_FORMS
  device.backend.launch(stream, info, in_all_forms(kernel));
#else
  device.backend.launch(stream, info, kernel);
#endif
}

/// `body(const KernelContext&)` must hold its arguments by value: it may run later. The tensors live on one device.
template <std::size_t Writes, std::size_t Reads, class Body>
void launch(const char* name, double flops, const std::array<const Tensor*, Writes>& written,
            const std::array<const Tensor*, Reads>& read, const Body& body) {
  DeviceState& device = *written[0]->impl()->storage->device;
  if (device.device.is_cpu()) return enqueue(device, {}, {name, flops, {}}, body);  // at once: nothing to order
  const StreamHandle stream = current_stream_handle(device);
  std::array<Access, Writes + Reads> accesses;
  Access* access = accesses.data();
  const auto add = [&](const Tensor* tensor, AccessKind kind) {
    *access++ = {region_of(*tensor->impl()), kind};
    use_on(stream, *tensor);
  };
  for (const Tensor* tensor : written) add(tensor, AccessKind::write);
  for (const Tensor* tensor : read) add(tensor, AccessKind::read);
  enqueue(device, stream, {name, flops, accesses}, body);
}
template <std::size_t Reads, class Body>
void launch(const char* name, double flops, const Tensor& written, const std::array<const Tensor*, Reads>& read,
            const Body& body) {
  launch(name, flops, std::array<const Tensor*, 1>{&written}, read, body);
}

}  // namespace lockstep
