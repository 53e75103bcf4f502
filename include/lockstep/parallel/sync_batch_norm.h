// Batch norm over the whole batch of a DataParallel: the model is the one that a single device would give.
#pragma once

#include <lockstep/nn/batch_norm.h>

namespace lockstep {

/// batch_norm (lockstep/ops/normalization.h) whose statistics, also for the gradient, are those of the x of all
/// replicas of a pass: every replica has to call it, and each waits on the host for the others, three times: for the
/// count, the mean and the variance. A replica's x may be empty. Outside of replicas it is batch_norm.
LOCKSTEP_API Tensor sync_batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_variance,
                                    const Tensor& weight = {}, const Tensor& bias = {},
                                    const BatchNormOptions& options = {});

namespace nn {

/// A BatchNorm1d, 2d or 3d that normalizes by the whole batch in training, whatever the number of devices.
/// x: [batch, features, ...]. Its state dict is theirs.
class LOCKSTEP_API SyncBatchNorm : public Module<SyncBatchNorm>, public BatchNormState {
 public:
  explicit SyncBatchNorm(std::int64_t features, const BatchNormLayerOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(SyncBatchNorm);
  Tensor forward(const Tensor& x);
};

}  // namespace nn
}  // namespace lockstep
