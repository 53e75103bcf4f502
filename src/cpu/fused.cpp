#include "cpu/fused.h"

namespace lockstep::host {

std::optional<std::size_t> offers(const FusedOp& op) {
  switch (op.kind) {
    case FusedKind::convolution:
    case FusedKind::convolution_input_gradient:
    case FusedKind::convolution_weight_gradient: return offers_convolution(op);
    case FusedKind::attention:
    case FusedKind::attention_gradient: return offers_attention(op);
    case FusedKind::batch_norm:
    case FusedKind::batch_norm_gradient: return offers_batch_norm(op);
    case FusedKind::lstm:
    case FusedKind::lstm_gradient: return offers_lstm(op);
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
