// Batch norm over the whole batch of a DataParallel: the results are those of a single device.
#pragma once

#include <lockstep/nn/batch_norm.h>

namespace lockstep {

/// batch_norm (lockstep/ops/normalization.h), but with the mean and variance of x over all replicas of the pass;
/// backward takes this into account. Every replica has to call it, and waits on the host for the others three times:
/// for the count, the mean and the variance. A replica's x may be empty. Outside of replicas it is batch_norm.
LOCKSTEP_API Tensor sync_batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_variance,
                                    const Tensor& weight = {}, const Tensor& bias = {},
                                    const BatchNormOptions& options = {});

namespace nn {

/// A BatchNorm1d, 2d or 3d that in training normalizes over the whole batch on all devices. x: [batch, features, ...].
/// Its state dict has the same keys as that of BatchNorm1d.
class LOCKSTEP_API SyncBatchNorm : public Module<SyncBatchNorm>, public BatchNormState {
 public:
  explicit SyncBatchNorm(std::int64_t features, const BatchNormLayerOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(SyncBatchNorm);
  Tensor forward(const Tensor& x);
};

}  // namespace nn
}  // namespace lockstep
