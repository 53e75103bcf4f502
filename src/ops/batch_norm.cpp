#include "ops/batch_norm.h"

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/batch_shard.h>

#include "autograd/in_place.h"
#include "kernels/map/map.h"
#include "ops/affine.h"
#include "ops/autocast.h"
#include "ops/batch_norm_kernel.h"
#include "ops/dtypes.h"
#include "ops/fused.h"
#include "ops/images.h"
#include "ops/norms.h"
#include "ops/reduced_dims.h"

namespace lockstep {
namespace {

// Statistics of each channel: [channels]. Squares of 16-bit floats overflow, so statistics and arithmetic with them are
// float32.
struct Statistics {
  Tensor mean;
  Tensor variance;
};

bool launches_grids(const Tensor& x) { return x.impl()->storage->device->backend.launches_grids(); }

Statistics statistics_of(const Tensor& wide_x) {
  const Shape dims = all_but_channels(wide_x.dim()), channels = {wide_x.sizes()[1]};
  const Tensor average = mean(wide_x, dims, true);
  return {average.view(channels), mean(square(wide_x - average), dims)};
}

// y = (x - mean) / sqrt(variance + eps) * weight + bias, not recorded.
struct Normalized {
  Tensor y;
  Statistics statistics;  // [channels] each
};

Normalized normalized(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  DeviceState& device = *x.impl()->storage->device;
  const int rank = x.dim();
  const std::int64_t channels = x.sizes()[1];
  const Tensor dense = to_layout_of(x, x);
  const Normalized result = {make_like(dense),
                             {make_tensor(device, {channels}, x.dtype()), make_tensor(device, {channels}, x.dtype())}};
  const auto& [y, statistics] = result;
  if (run_fused({.kind = FusedKind::batch_norm, .name = "batch_norm", .epsilon = eps},
                {{dense}, {weight}, {bias}, {y, true}, {statistics.mean, true}, {statistics.variance, true}}))
    return result;
  const Statistics own = statistics_of(x);
  const Tensor scale = rsqrt(per_channel(own.variance, rank) + eps);
  return {affine((x - per_channel(own.mean, rank)) * scale, per_channel(weight, rank), per_channel(bias, rank)), own};
}

// The pieces of x and g, which are dense with the same memory layout.
template <class T>
ChannelPieces pieces_of(const Tensor& x, const Tensor& g) {
  const Shape& sizes = x.sizes();
  const std::int64_t count = x.numel() / sizes[1];
  ChannelExtent extent{sizes[0], sizes[1], count / sizes[0]};
  if (sizes[1] == 1)
    extent = {1, 1, count};
  else if (is_channels_last(sizes, x.strides()))
    extent = {count, sizes[1], 1};
  const auto aligned = [](const Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.impl()->data()) % 16 == 0;
  };
  return ChannelPieces(extent, int(16 / sizeof(T)), aligned(x) && aligned(g));
}

// The running statistics, if any. On a GPU, normalized_by_grids() updates them; it computes in x's dtype with float32
// statistics, in three grids.
struct RunningStatistics {
  Tensor mean, variance;
  double momentum = 0;
};

Normalized normalized_by_grids(const Tensor& given, const Tensor& given_weight, const Tensor& given_bias, double eps,
                               const RunningStatistics& running) {
  const Tensor x = to_layout_of(given, given);
  const auto dense = [](const Tensor& t) { return t.defined() ? t.contiguous() : t; };
  const Tensor weight = dense(given_weight), bias = dense(given_bias);
  DeviceState& device = *x.impl()->storage->device;
  const std::int64_t channels = x.sizes()[1];
  const Tensor of_channels = make_tensor(device, {4, channels}, wide_dtype(x.dtype()));
  const auto row = [&](int i) { return of_channels.select(0, i); };
  Normalized result = {make_like(x), {row(0), row(1)}};
  visit_floating("batch_norm", x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    const ChannelPieces pieces = pieces_of<T>(x, x);
    const Tensor partial = make_tensor(device, {pieces.pieces, 2, channels}, of_channels.dtype());
    C* const to = data_or_null<C>(of_channels);
    const BatchStatisticsKernel<T> kernel{pieces,
                                          data_or_null<T>(x),
                                          nullptr,
                                          data_or_null<C>(partial),
                                          eps,
                                          running.momentum,
                                          data_or_null<T>(weight),
                                          data_or_null<T>(bias),
                                          to,
                                          to + channels,
                                          to + 2 * channels,
                                          to + 3 * channels,
                                          data_or_null<T>(running.mean),
                                          data_or_null<T>(running.variance)};
    launch("batch_norm_statistics", 5 * double(x.numel()),
           std::array{&partial, &of_channels, &running.mean, &running.variance}, std::array{&x, &weight, &bias},
           kernel);
    const auto each = [&](int i) { return per_channel(row(i), x.dim()); };
    map<T, T, C, C, C>("batch_norm", 3, BatchNormalize(), result.y, x, each(0), each(2), each(3));
  });
  return result;
}

NormGradients gradients_by_grids(const Tensor& given_g, const Tensor& given_x, const Tensor& given_weight,
                                 const Statistics& statistics, double eps) {
  const Tensor x = to_layout_of(given_x, given_x), g = to_layout_of(given_g, x);
  const Tensor weight = given_weight.defined() ? given_weight.contiguous() : given_weight;
  DeviceState& device = *x.impl()->storage->device;
  const std::int64_t channels = x.sizes()[1];
  const Tensor of_channels = make_tensor(device, {3, channels}, statistics.mean.dtype());
  const NormGradients result = {make_like(x), make_tensor(device, {channels}, x.dtype()),
                                make_tensor(device, {channels}, x.dtype())};
  visit_floating("batch_norm", x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    const ChannelPieces pieces = pieces_of<T>(x, g);
    const Tensor partial = make_tensor(device, {pieces.pieces, 2, channels}, of_channels.dtype());
    C* const to = data_or_null<C>(of_channels);
    const BatchGradientKernel<T> kernel{pieces,
                                        data_or_null<T>(x),
                                        data_or_null<T>(g),
                                        data_or_null<C>(partial),
                                        eps,
                                        data_or_null<T>(weight),
                                        data_or_null<C>(statistics.mean),
                                        data_or_null<C>(statistics.variance),
                                        data_or_null<T>(result.weight),
                                        data_or_null<T>(result.bias),
                                        to,
                                        to + channels,
                                        to + 2 * channels};
    launch("batch_norm_sums", 4 * double(x.numel()), std::array{&partial, &of_channels, &result.weight, &result.bias},
           std::array{&x, &g, &weight, &statistics.mean, &statistics.variance}, kernel);
    const auto each = [&](const Tensor& row) { return per_channel(row, x.dim()); };
    map<T, T, T, C, C, C, C>("batch_norm_gradient", 5, BatchNormalizeGradient(), result.x, g, x, each(statistics.mean),
                             each(of_channels.select(0, 0)), each(of_channels.select(0, 1)),
                             each(of_channels.select(0, 2)));
  });
  return result;
}

// The gradients of x, weight and bias; also computes those of a weight or bias that is undefined.
NormGradients gradients_of(const Tensor& g, const Tensor& x, const Tensor& weight, const Statistics& statistics,
                           double eps) {
  const int rank = x.dim();
  const Shape dims = all_but_channels(rank);
  const Tensor mean_of = per_channel(statistics.mean, rank), variance = per_channel(statistics.variance, rank);
  const Tensor scale = rsqrt(variance + eps), normal = (x - mean_of) * scale;
  const Tensor along = g - mean(g, dims, true) - normal * mean(g * normal, dims, true);
  return {along * (weight.defined() ? scale * per_channel(weight, rank) : scale), sum(g * normal, dims), sum(g, dims)};
}

NormGradients fused_gradients(const Tensor& g, const Tensor& x, const Tensor& weight, const Statistics& statistics,
                              double eps) {
  DeviceState& device = *x.impl()->storage->device;
  const Tensor dense = to_layout_of(x, x);
  const Shape channels = {x.sizes()[1]};
  const NormGradients result = {make_like(dense), make_tensor(device, channels, x.dtype()),
                                make_tensor(device, channels, x.dtype())};
  if (run_fused({.kind = FusedKind::batch_norm_gradient, .name = "batch_norm_gradient", .epsilon = eps},
                {{to_layout_of(g, dense)},
                 {dense},
                 {weight},
                 {statistics.mean},
                 {statistics.variance},
                 {result.x, true},
                 {result.weight, true},
                 {result.bias, true}}))
    return result;
  return gradients_of(g, x, weight, statistics, eps);
}

// Normalizes with x's own statistics, as one node: backward needs two sums over each channel. A GPU also updates the
// running statistics here.
Tensor normalize_batch(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Statistics& statistics,
                       const RunningStatistics& running) {
  const bool by_grids = launches_grids(x);
  const auto wide = [](const Tensor& t) { return t.defined() ? widened(t.detach()) : t; };
  Tensor out;
  {
    const NoGrad guard;
    Normalized result = by_grids ? normalized_by_grids(x.detach(), weight, bias, eps, running)
                                 : normalized(wide(x), wide(weight), wide(bias), eps);
    statistics = result.statistics;
    out = result.y.to(x.dtype());
  }
  record_norm("BatchNorm", out, x, weight, bias,
              [mean_of = Saved(statistics.mean), variance = Saved(statistics.variance), eps, by_grids](
                  const Tensor& g, const Tensor& v, const Tensor& w, const NormNeeds&) {
                const Statistics own = {mean_of.get(), variance.get()};
                if (by_grids && !grad_enabled()) return gradients_by_grids(g, v, w, own, eps);
                const Tensor p = widened(v), q = w.defined() ? widened(w) : w;
                const NormGradients of = grad_enabled() ? gradients_of(widened(g), p, q, statistics_of(p), eps)
                                                        : fused_gradients(widened(g), p, q, own, eps);
                return NormGradients{of.x.to(g.dtype()), of.weight.to(g.dtype()), of.bias.to(g.dtype())};
              });
  return out;
}

// Normalizes with given statistics in one launch, for evaluation on a GPU.
Tensor normalized_by(const Tensor& x, const Tensor& mean_of, const Tensor& variance, const Tensor& weight,
                     const Tensor& bias, double eps) {
  Tensor y = make_like(x);
  const auto each = [&](const Tensor& row) { return per_channel(row.defined() ? row.detach() : mean_of, x.dim()); };
  visit_floating("batch_norm", x.dtype(), [&]<class T>() {
    map<T, T, T, T, T, T>("batch_norm", 5,
                          BatchNormalizeBy<ComputeType<T>>{ComputeType<T>(eps), weight.defined(), bias.defined()}, y, x,
                          each(mean_of), each(variance), each(weight), each(bias));
  });
  return y;
}

// True if the kernel that normalizes can also update these running statistics.
bool move_on_the_way(const Tensor& running) { return !running.defined() || running.is_contiguous(); }

}  // namespace

void check_batch_norm(const char* op, const Tensor& x, const Tensor& running_mean, const Tensor& running_variance,
                      const Tensor& weight, const Tensor& bias) {
  check_floating(op, x);
  if (x.dim() < 2) throw ShapeError(text("[", op, "] expected x [batch, channels, ...], got ", x.sizes()));
  for (const Tensor* parameter : {&running_mean, &running_variance, &weight, &bias})
    check_affine(op, x, *parameter, {x.sizes()[1]});
}

void check_batch_count(const char* op, const Tensor& x, std::int64_t count) {
  if (count != 1) return;
  const BatchPlace place = place_in_batch(x.sizes());
  throw ShapeError(
      text("[", op, "] expected more than one element for each channel in training, got ", x.sizes(),
           place.run == place.stride
               ? ": leave out a last batch that is so short (drop_last)"
               : ", this replica's part of a batch: divide batches evenly (ScatterSplit::balanced), leave out a "
                 "last one that is short (drop_last), or take the statistics of all replicas "
                 "(SyncBatchNorm)"));
}

void update_running(const Tensor& running, const Tensor& now, double factor, double momentum) {
  if (!running.defined()) return;
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
    std::vector<Tensor> all = {x, running_mean, running_variance};
    for (const Tensor* parameter : {&weight, &bias})
      if (parameter->defined()) all.push_back(*parameter);
    if (launches_grids(x) && !autograd::any_records(all))
      return normalized_by(x, running_mean, running_variance, weight, bias, options.eps);
    const Tensor spread = rsqrt(widened(running_variance) + options.eps);
    const Tensor scale = weight.defined() ? spread * weight : spread, offset = widened(running_mean) * scale;
    const Tensor added = bias.defined() ? bias - offset : -offset;
    return (widened(x) * per_channel(scale, rank) + per_channel(added, rank)).to(x.dtype());
  }
  const std::int64_t channels = x.sizes()[1], count = channels ? x.numel() / channels : 0;
  check_batch_count("batch_norm", x, count);
  if (count == 0) return affine(x, per_channel(weight, rank), per_channel(bias, rank));
  Statistics statistics;
  if (launches_grids(x) && move_on_the_way(running_mean) && move_on_the_way(running_variance)) {
    for (const Tensor* running : {&running_mean, &running_variance})
      if (running->defined()) autograd::notify_in_place(*running);
    Tensor y =
        normalize_batch(x, weight, bias, options.eps, statistics, {running_mean, running_variance, options.momentum});
    for (const Tensor* running : {&running_mean, &running_variance})
      if (running->defined()) bump_version(*running);
    return y;
  }
  Tensor y = normalize_batch(x, weight, bias, options.eps, statistics, {});
  const NoGrad guard;
  update_running(running_mean, statistics.mean, 1, options.momentum);
  update_running(running_variance, statistics.variance, double(count) / double(count - 1), options.momentum);
  return y;
}

}  // namespace lockstep
