// Batch normalization layers (Ioffe, Szegedy 2015).
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/nn/module.h>
#include <lockstep/ops/normalization.h>

namespace lockstep::nn {

struct BatchNormLayerOptions {
  double eps = 1e-5;
  double momentum = 0.1;            ///< Fraction of the running statistics that a training step replaces.
  bool affine = true;               ///< If true, the layer has a weight, initially 1, and a bias, initially 0.
  bool track_running_stats = true;  ///< If false, evaluation also uses the statistics of the batch.
  TensorOptions tensor = {};        ///< Device and dtype.
};

/// libtorch's names of these options.
using BatchNorm1dOptions = BatchNormLayerOptions;
using BatchNorm2dOptions = BatchNormLayerOptions;
using BatchNorm3dOptions = BatchNormLayerOptions;

/// The state of batch norm layers, under PyTorch's names.
class LOCKSTEP_API BatchNormState {
 public:
  /// The number of features, as given or taken from the first batch; -1 before that batch. To be read only: assigning
  /// it changes no parameter.
  std::int64_t num_features = -1;
  /// [features]; nullopt if the layer is not affine.
  std::optional<Parameter> weight, bias;  // [features]
  /// Of shapes [features], [features] and []; nullopt if statistics are not tracked.
  std::optional<Buffer> running_mean, running_var, num_batches_tracked;  // [features], [features], []

  auto members() {
    return lockstep::members("weight", weight, "bias", bias, "running_mean", running_mean, "running_var", running_var,
                             "num_batches_tracked", num_batches_tracked);
  }

 protected:
  /// The least and the greatest number of dimensions that x may have.
  struct Ranks {
    int least, most;
  };
  /// `sync`: how replicas reconcile the running statistics. If `features` is nullopt, the first batch sets the number
  /// of features. Throws InvalidArgument for a negative number.
  BatchNormState(const char* layer, Ranks ranks, std::optional<std::int64_t> features,
                 const BatchNormLayerOptions& options, BufferSync sync);

  /// Implements forward(). `function`: batch_norm or instance_norm.
  Tensor normalize(decltype(&batch_norm) function, const Tensor& x, bool training);
  void print(std::ostream& out) const;

 private:
  void make(std::int64_t features, const TensorOptions& options);
  void initialize_parameters(const Tensor& x);

  const char* layer_;
  Ranks ranks_;
  double eps_, momentum_;
};

/// (x - mean) / sqrt(variance + eps) * weight + bias for each feature, with the statistics of the batch in training and
/// the running statistics in evaluation. x: [batch, features, spatial...] with kDims spatial dimensions; BatchNorm1d
/// also takes [batch, features].
///
/// In a DataParallel each replica normalizes by its own shard; the running statistics are the mean over the replicas
/// that ran the layer on at least one row. SyncBatchNorm (lockstep/parallel/sync_batch_norm.h) normalizes by the whole
/// batch.
template <int kDims>
class BatchNorm : public Module<BatchNorm<kDims>>, public BatchNormState {
  static constexpr const char* kNames[] = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"};

 public:
  explicit BatchNorm(std::int64_t features, const BatchNormLayerOptions& options = {})
      : BatchNormState(kNames[kDims - 1], {kDims == 1 ? 2 : kDims + 2, kDims + 2}, features, options,
                       BufferSync::mean) {}
  LOCKSTEP_COPIED_IF_ASKED(BatchNorm);
  Tensor forward(const Tensor& x) { return normalize(&batch_norm, x, this->is_training()); }
  void pretty_print(std::ostream& out) const override { print(out); }
};

/// A BatchNorm that takes its number of features, device and dtype from its first batch.
template <int kDims>
class LazyBatchNorm : public Module<LazyBatchNorm<kDims>>, public BatchNormState {
  static constexpr const char* kNames[] = {"LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d"};

 public:
  explicit LazyBatchNorm(const BatchNormLayerOptions& options = {})
      : BatchNormState(kNames[kDims - 1], {kDims == 1 ? 2 : kDims + 2, kDims + 2}, std::nullopt, options,
                       BufferSync::mean) {}
  LOCKSTEP_COPIED_IF_ASKED(LazyBatchNorm);
  Tensor forward(const Tensor& x) { return normalize(&batch_norm, x, this->is_training()); }
};

using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;
using LazyBatchNorm1d = LazyBatchNorm<1>;
using LazyBatchNorm2d = LazyBatchNorm<2>;
using LazyBatchNorm3d = LazyBatchNorm<3>;

}  // namespace lockstep::nn
