#include "cpu/fused_dispatch.h"

namespace lockstep::host {

std::optional<std::size_t> workspace_size(const FusedOp& op) {
  switch (op.kind) {
    case FusedKind::convolution:
    case FusedKind::convolution_input_gradient:
    case FusedKind::convolution_weight_gradient: return convolution_workspace_size(op);
    case FusedKind::attention:
    case FusedKind::attention_gradient: return attention_workspace_size(op);
    case FusedKind::batch_norm:
    case FusedKind::batch_norm_gradient: return batch_norm_workspace_size(op);
    case FusedKind::lstm:
    case FusedKind::lstm_gradient: return lstm_workspace_size(op);
    default: return std::nullopt;
  }
}

void fused(const KernelContext& context, const FusedOp& op, void* workspace) {
  switch (op.kind) {
    case FusedKind::convolution:
    case FusedKind::convolution_input_gradient:
    case FusedKind::convolution_weight_gradient: return convolution(context, op, workspace);
    case FusedKind::attention:
    case FusedKind::attention_gradient: return attention(context, op);
    case FusedKind::batch_norm:
    case FusedKind::batch_norm_gradient: return batch_norm(context, op, workspace);
    case FusedKind::lstm:
    case FusedKind::lstm_gradient: return lstm(context, op, workspace);
    default: return;
  }
}

}  // namespace lockstep::host
