#include "ops/batch_norm.h"

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/batch_shard.h>

#include "autograd/record.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/fused.h"
#include "ops/images.h"
#include "ops/reduced_dims.h"
#include "ops/wide.h"

namespace lockstep {
namespace {

using autograd::Gradients;
using autograd::record_many;
using autograd::Saved;

// Of each channel: [channels]. Squares of 16-bit floats overflow: statistics, and what is computed with
// them, are wide.
struct Statistics {
  Tensor mean;
  Tensor variance;
};

Statistics statistics_of(const Tensor& wide_x) {
  const Shape dims = all_but_channels(wide_x.dim()), channels = {wide_x.sizes()[1]};
  const Tensor average = mean(wide_x, dims, true);
  return {average.view(channels), mean(square(wide_x - average), dims)};
}

FusedOp described(FusedKind kind, const char* name, double eps) {
  FusedOp op;
  op.kind = kind;
  op.name = name;
  op.epsilon = eps;
  return op;
}

// y = (x - mean) / sqrt(variance + eps) * weight + bias, of values.
struct Normalized {
  Tensor y;
  Statistics statistics;  // [channels] each
};

Normalized normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  DeviceState& device = *x.impl()->storage->device;
  const int rank = x.dim();
  const std::int64_t channels = x.sizes()[1];
  const Tensor dense = as_laid(x, x);
  const Normalized result = {make_like(dense),
                             {make_tensor(device, {channels}, x.dtype()), make_tensor(device, {channels}, x.dtype())}};
  const auto& [y, statistics] = result;
  if (run_fused(described(FusedKind::batch_norm, "batch_norm", eps),
                {{dense}, {weight}, {bias}, {y, true}, {statistics.mean, true}, {statistics.variance, true}}))
    return result;
  const Statistics own = statistics_of(x);
  const Tensor scale = rsqrt(per_channel(own.variance, rank) + eps);
  return {affine((x - per_channel(own.mean, rank)) * scale, per_channel(weight, rank), per_channel(bias, rank)), own};
}

// The gradients of x, weight and bias, of which the last two are there without a weight and a bias too.
Gradients gradients_of(const Tensor& g, const Tensor& x, const Tensor& weight, const Statistics& statistics,
                       double eps) {
  const int rank = x.dim();
  const Shape dims = all_but_channels(rank);
  const Tensor mean_of = per_channel(statistics.mean, rank), variance = per_channel(statistics.variance, rank);
  const Tensor scale = rsqrt(variance + eps), normal = (x - mean_of) * scale;
  const Tensor along = g - mean(g, dims, true) - normal * mean(g * normal, dims, true);
  return {along * (weight.defined() ? scale * per_channel(weight, rank) : scale), sum(g * normal, dims), sum(g, dims)};
}

Gradients fused_gradients(const Tensor& g, const Tensor& x, const Tensor& weight, const Statistics& statistics,
                          double eps) {
  DeviceState& device = *x.impl()->storage->device;
  const Tensor dense = as_laid(x, x);
  const Shape channels = {x.sizes()[1]};
  Gradients result = {make_like(dense), make_tensor(device, channels, x.dtype()),
                      make_tensor(device, channels, x.dtype())};
  if (run_fused(described(FusedKind::batch_norm_gradient, "batch_norm_gradient", eps), {{as_laid(g, dense)},
                                                                                        {dense},
                                                                                        {weight},
                                                                                        {statistics.mean},
                                                                                        {statistics.variance},
                                                                                        {result[0], true},
                                                                                        {result[1], true},
                                                                                        {result[2], true}}))
    return result;
  return gradients_of(g, x, weight, statistics, eps);
}

// With x's own statistics, in one node: backward needs two sums over each channel.
Tensor normalize_batch(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Statistics& statistics) {
  const auto wide = [](const Tensor& t) { return t.defined() ? widened(t.detach()) : t; };
  Tensor out;
  {
    const NoGrad guard;
    Normalized result = normalized(wide(x), wide(weight), wide(bias), eps);
    statistics = result.statistics;
    out = result.y.to(x.dtype());
  }
  std::vector<Tensor> inputs = {x};
  if (weight.defined()) inputs.push_back(weight);
  if (bias.defined()) inputs.push_back(bias);
  if (!autograd::any_records(inputs)) return out;
  record_many("BatchNorm", std::span(&out, 1), inputs,
              [v = Saved(x), w = weight.defined() ? Saved(weight) : Saved(), statistics, eps,
               with_weight = weight.defined(), with_bias = bias.defined()](const Tensor& g) {
                const Tensor p = widened(v.get()), q = with_weight ? widened(w.get()) : Tensor();
                Gradients all = grad_enabled() ? gradients_of(widened(g), p, q, statistics_of(p), eps)
                                               : fused_gradients(widened(g), p, q, statistics, eps);
                Gradients gradients = {all[0].to(g.dtype())};
                if (with_weight) gradients.push_back(all[1].to(g.dtype()));
                if (with_bias) gradients.push_back(all[2].to(g.dtype()));
                return gradients;
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
  if (!options.training) {
    if (!running_mean.defined() || !running_variance.defined())
      throw InvalidArgument("[batch_norm] expected running statistics for evaluation, got none");
    const Tensor spread = rsqrt(widened(running_variance) + options.eps);
    const Tensor scale = weight.defined() ? spread * weight : spread, offset = widened(running_mean) * scale;
    const Tensor added = bias.defined() ? bias - offset : -offset;
    return (widened(x) * per_channel(scale, rank) + per_channel(added, rank)).to(x.dtype());
  }
  const std::int64_t channels = x.sizes()[1], count = channels ? x.numel() / channels : 0;
  check_batch_count("batch_norm", x, count);
  Statistics statistics;
  Tensor y = normalize_batch(x, weight, bias, options.eps, statistics);
  const NoGrad guard;
  update_running(running_mean, statistics.mean, 1, options.momentum);
  update_running(running_variance, statistics.variance, double(count) / double(count - 1), options.momentum);
  return y;
}

}  // namespace lockstep
