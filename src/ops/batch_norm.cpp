#include "ops/batch_norm.h"

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/batch_shard.h>

#include "autograd/record.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/reduced_dims.h"
#include "ops/wide.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::record;
using autograd::records;
using autograd::Saved;

// Of each channel: [1, channels, 1, ...]. Squares of 16-bit floats overflow: statistics, and what is computed with
// them, are wide.
struct Statistics {
  Tensor mean;
  Tensor variance;
};

Statistics statistics_of(const Tensor& wide_x, const Shape& dims) {
  const Tensor average = mean(wide_x, dims, true);
  return {average, mean(square(wide_x - average), dims, true)};
}

// With x's own statistics, in one node: backward needs two sums over each channel.
Tensor normalize_batch(const Tensor& x, const Statistics& statistics, double eps) {
  const Tensor scale = rsqrt(statistics.variance + eps);
  Tensor out = ((widened(x.detach()) - statistics.mean) * scale).to(x.dtype());
  if (records(x))
    record("BatchNorm", out, {&x}, [x = Saved(x), y = Saved(out, autograd::kOutput), scale, eps](const Tensor& g) {
      const Shape dims = all_but_channels(g.dim());
      const Tensor wide_g = widened(g);
      const auto along = [&](const Tensor& normal, const Tensor& s) {
        return (s * (wide_g - mean(wide_g, dims, true) - normal * mean(wide_g * normal, dims, true))).to(g.dtype());
      };
      if (!grad_enabled()) return Gradients{along(widened(y.get()), scale)};
      const Tensor v = widened(x.get());
      const auto [average, variance] = statistics_of(v, dims);
      const Tensor s = rsqrt(variance + eps);
      return Gradients{along((v - average) * s, s)};
    });
  return out;
}

}  // namespace

void check_batch_norm(const char* op, const Tensor& x, const Tensor& running_mean, const Tensor& running_variance,
                      const Tensor& weight, const Tensor& bias) {
  check_floating(op, x);
  if (x.dim() < 2) throw ShapeError(text("[", op, "] expected x [batch, channels, ...], got ", x.sizes()));
  for (const Tensor* parameter : {&running_mean, &running_variance, &weight, &bias})
    check_affine(op, x, *parameter, {x.sizes()[1]});
}

void check_batch_count(const char* op, const Tensor& x, std::int64_t count) {
  if (count >= 2) return;
  const BatchPlace place = place_in_batch(x.sizes());
  throw ShapeError(text("[", op, "] expected more than one element for each channel in training, got ", x.sizes(),
                        place.run == place.stride
                            ? ": leave out a last batch that is so short (drop_last)"
                            : ", this replica's part of a batch: divide batches evenly (Split::balanced), leave out a "
                              "last one that is short (drop_last), or take the statistics of all replicas "
                              "(SyncBatchNorm)"));
}

Shape all_but_channels(int rank) {
  Shape dims = {0};
  for (int i = 2; i < rank; ++i) dims.push_back(i);
  return dims;
}

void update_running(const Tensor& running, const Tensor& now, double factor, double momentum) {
  if (!running.defined() || context().checkpointed == CheckpointedRun::again) return;
  Tensor target = running;
  target.mul_(1 - momentum).add_(now.reshape(target.sizes()), factor * momentum);
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_variance, const Tensor& weight,
                  const Tensor& bias, const BatchNormOptions& options) {
  if (const auto cast = autocast::wide())
    return batch_norm(cast(x), running_mean, running_variance, cast(weight), cast(bias), options).to(x.dtype());
  check_batch_norm("batch_norm", x, running_mean, running_variance, weight, bias);
  const int rank = x.dim();
  const Tensor w = per_channel(weight, rank), b = per_channel(bias, rank);
  if (!options.training) {
    if (!running_mean.defined() || !running_variance.defined())
      throw InvalidArgument("[batch_norm] expected running statistics for evaluation, got none");
    const Tensor scale = rsqrt(per_channel(running_variance, rank) + options.eps);
    return affine((x - per_channel(running_mean, rank)) * scale, w, b);
  }
  const std::int64_t channels = x.sizes()[1], count = channels ? x.numel() / channels : 0;
  check_batch_count("batch_norm", x, count);
  Statistics statistics;
  {
    const NoGrad guard;
    statistics = statistics_of(widened(x), all_but_channels(rank));
    update_running(running_mean, statistics.mean, 1, options.momentum);
    update_running(running_variance, statistics.variance, double(count) / double(count - 1), options.momentum);
  }
  return affine(normalize_batch(x, statistics, options.eps), w, b);
}

}  // namespace lockstep
