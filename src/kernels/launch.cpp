#include "kernels/launch.h"

#include <algorithm>
#include <array>
#include <vector>

#include <lockstep/kernels/multi_map.h>

#include "core/text.h"

namespace lockstep {

void check_forms(const char* op, const DeviceState& device, bool has_device_form) {
  if (!has_device_form && device.backend.launches_grids())
    throw InvalidArgument(text("[", op, "] the operands are on ", device.device,
                               ", but this kernel is compiled for the host alone: name its source file in "
                               "lockstep_kernels(), in CMake"));
}

void launch_kernel(const char* name, double flops, std::span<const Tensor* const> written,
                   std::span<const Tensor* const> read, KernelRef kernel) {
  const OperationEnd end;
  const Tensor& any = **std::find_if(written.begin(), written.end(), [](const Tensor* t) { return t->defined(); });
  DeviceState& device = *any.impl()->storage->device;
  if (device.device.is_cpu()) return device.backend.launch({}, {name, flops, {}}, kernel);  // the CPU has no streams
  const StreamHandle stream = current_stream_handle(device);
  const std::size_t count = written.size() + read.size();
  std::array<MemoryAccess, 16> few;
  std::vector<MemoryAccess> many(count > few.size() ? count : 0);
  MemoryAccess* const accesses = many.empty() ? few.data() : many.data();
  MemoryAccess* next = accesses;
  const auto add = [&](const Tensor& tensor, AccessKind kind) {
    if (!tensor.defined()) return;
    *next++ = {region_of(*tensor.impl()), kind};
    use_on(stream, tensor);
  };
  for (const Tensor* tensor : written) add(*tensor, AccessKind::write);
  for (const Tensor* tensor : read) add(*tensor, AccessKind::read);
  device.backend.launch(stream, {name, flops, std::span(accesses, next)}, kernel);
}

}  // namespace lockstep

namespace lockstep::detail {

Elements elements_of(const TensorImpl& tensor) { return {tensor.data(), tensor.numel}; }

void launch_over(DeviceState& device, MultiLaunch launch, KernelRef kernel) {
  const OperationEnd end;
  check_forms(launch.name, device, launch.has_device_form);
  const StreamHandle stream = current_stream_handle(device);
  for (const TensorImpl* tensor : launch.tensors) {
    wait_for_copies_from(*tensor);
    use_on(stream, *tensor);
  }
  for (const TensorImpl* parameter : launch.parameters) {
    use_on(stream, *parameter);
    launch.accesses.push_back({region_of(*parameter), AccessKind::read});
  }
  device.backend.launch(stream, {launch.name, launch.flops, launch.accesses}, kernel);
}

}  // namespace lockstep::detail
