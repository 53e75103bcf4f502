#include <lockstep/tensor/kernels/multi_map.h>

#include "core/text.h"
#include "tensor/kernels/launch.h"

namespace lockstep {

void check_forms(const char* op, const DeviceState& device, bool has_device_form) {
  if (!has_device_form && device.backend.launches_grids())
    throw InvalidArgument(text("[", op,
                               "] expected a kernel that is compiled for GPUs, got one for the host alone, and ",
                               "operands on ", device.device, ": name its source in lockstep_kernels(), in CMake"));
}

}  // namespace lockstep

namespace lockstep::detail {

Elements elements_of(const TensorImpl& tensor) noexcept { return {tensor.data(), tensor.numel}; }

void launch_over(DeviceState& device, MultiLaunch launch, KernelRef kernel) {
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
