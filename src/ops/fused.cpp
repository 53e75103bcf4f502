#include "ops/fused.h"

#include <optional>

#include "kernels/launch.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

namespace {

// Fills in the operands; returns their device.
DeviceState& describe(FusedOp& op, std::initializer_list<FusedTensor> operands) {
  DeviceState* device = nullptr;
  std::size_t place = 0;
  for (const auto& [tensor, written] : operands) {
    FusedOperand& operand = op.operands[place++];
    if (!tensor.defined()) continue;
    const TensorImpl& impl = *tensor.impl();
    device = impl.storage->device;
    operand = {impl.data(), impl.dtype, impl.sizes, impl.strides, true, written};
  }
  return *device;
}

}  // namespace

bool offers_fused(FusedOp op, std::initializer_list<FusedTensor> operands) {
  DeviceState& device = describe(op, operands);
  return device.backend.workspace_size(current_stream_handle(device).device, op).has_value();
}

bool run_fused(FusedOp op, std::initializer_list<FusedTensor> operands) {
  const OperationEnd end;
  DeviceState* const device = &describe(op, operands);
  const StreamHandle stream = current_stream_handle(*device);
  const std::optional<std::size_t> bytes = device->backend.workspace_size(stream.device, op);
  if (!bytes) return false;
  for (const auto& [tensor, written] : operands)
    if (tensor.defined()) use_on(stream, tensor);
  Tensor workspace;
  if (*bytes) workspace = make_tensor(*device, {std::int64_t(*bytes)}, kUInt8);
  device->backend.fused(stream, op, *bytes ? workspace.impl()->data() : nullptr);
  return true;
}

}  // namespace lockstep
