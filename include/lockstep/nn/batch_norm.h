// Batch normalization layers (Ioffe, Szegedy 2015).
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/nn/module.h>
#include <lockstep/ops/normalization.h>

namespace lockstep::nn {

struct BatchNormLayerOptions {
  double eps = 1e-5;
  double momentum = 0.1;            ///< How much of the running statistics a training step replaces.
  bool affine = true;               ///< With a weight, 1 at first, and a bias, 0 at first.
  bool track_running_stats = true;  ///< Without, evaluation normalizes by the batch too.
  TensorOptions tensor = {};        ///< Device and dtype.
};

/// What the batch norm layers hold, by PyTorch's names.
class LOCKSTEP_API BatchNormState {
 public:
  std::optional<Parameter> weight, bias;                                 // [features]
  std::optional<Buffer> running_mean, running_var, num_batches_tracked;  // [features], [features], []

  auto members() {
    return lockstep::members("weight", weight, "bias", bias, "running_mean", running_mean, "running_var", running_var,
                             "num_batches_tracked", num_batches_tracked);
  }

 protected:
  /// `sync` is what becomes of the running statistics in replicas. Throws InvalidArgument for a negative size.
  BatchNormState(const char* layer, std::int64_t features, const BatchNormLayerOptions& options, BufferSync sync);

  /// What forward() of both layers is, with the function that normalizes.
  Tensor normalize(const char* layer, decltype(&batch_norm) function, const Tensor& x, bool training);

 private:
  std::int64_t features_;
  double eps_, momentum_;
};

/// (x - mean) / sqrt(variance + eps) * weight + bias for each feature, with the statistics of the batch in training and
/// the running ones in evaluation. x: [batch, features] or [batch, features, length].
///
/// In a DataParallel each replica normalizes by its own shard; the running statistics are the mean over the replicas.
/// SyncBatchNorm (lockstep/parallel/sync_batch_norm.h) normalizes by the whole batch.
class LOCKSTEP_API BatchNorm1d : public Module<BatchNorm1d>, public BatchNormState {
 public:
  explicit BatchNorm1d(std::int64_t features, const BatchNormLayerOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(BatchNorm1d);
  Tensor forward(const Tensor& x);
};

}  // namespace lockstep::nn
