#include <lockstep/parallel/sync_batch_norm.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/parallel/replica_group.h>

#include "core/context.h"
#include "core/text.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/batch_norm.h"
#include "ops/dtypes.h"

namespace lockstep {

Tensor sync_batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_variance,
                       const Tensor& weight, const Tensor& bias, const BatchNormOptions& options) {
  if (!options.training || !context().barrier)
    return batch_norm(x, running_mean, running_variance, weight, bias, options);
  if (const auto cast = autocast::wide())
    return sync_batch_norm(cast(x), running_mean, running_variance, cast(weight), cast(bias), options).to(x.dtype());
  check_batch_norm("sync_batch_norm", x, running_mean, running_variance, weight, bias);
  const std::int64_t channels = x.sizes()[1];
  const std::string what = text("sync_batch_norm of ", channels, " channels");
  const std::int64_t count = channels ? x.numel() / channels : 0, total = sum_over_replicas(count, what);
  check_batch_count("sync_batch_norm", x, total);

  const int rank = x.dim();
  if (total == 0) return affine(x, per_channel(weight, rank), per_channel(bias, rank));
  const Shape dims = all_but_channels(rank);
  const auto mean_of_all = [&](const Tensor& values) {
    return sum_over_replicas(
        count ? mean(values, dims, true) * (double(count) / double(total)) : sum(values, dims, true), what);
  };
  const Tensor wide_x = widened(x);  // squares of 16-bit floats overflow
  const Tensor average = mean_of_all(wide_x);
  const Tensor centered = wide_x - average;
  const Tensor variance = mean_of_all(square(centered));
  {
    const NoGrad guard;
    update_running(running_mean, average, 1, options.momentum);
    update_running(running_variance, variance, double(total) / double(total - 1), options.momentum);
  }
  return affine((centered * rsqrt(variance + options.eps)).to(x.dtype()), per_channel(weight, rank),
                per_channel(bias, rank));
}

namespace nn {

SyncBatchNorm::SyncBatchNorm(std::int64_t features, const BatchNormLayerOptions& options)
    : BatchNormState("SyncBatchNorm", {2, Shape::kMaxRank}, features, options, BufferSync::equal) {}

Tensor SyncBatchNorm::forward(const Tensor& x) { return normalize(&sync_batch_norm, x, is_training()); }

}  // namespace nn
}  // namespace lockstep
