// instance_norm: group_norm with one channel per group, plus running statistics.
#include <algorithm>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/reduce.h>

#include "core/text.h"
#include "ops/autocast.h"
#include "ops/batch_norm.h"
#include "ops/dtypes.h"

namespace lockstep {

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_variance, const Tensor& weight,
                     const Tensor& bias, const BatchNormOptions& options) {
  if (const auto cast = autocast::wide())
    return instance_norm(cast(x), running_mean, running_variance, cast(weight), cast(bias), options).to(x.dtype());
  check_batch_norm("instance_norm", x, running_mean, running_variance, weight, bias);
  if (!options.training) return batch_norm(x, running_mean, running_variance, weight, bias, options);
  const std::int64_t batch = x.sizes()[0], channels = x.sizes()[1];
  const std::int64_t count = batch && channels ? x.numel() / batch / channels : 0;
  if (batch && channels && count < 2)
    throw ShapeError(
        text("[instance_norm] expected more than one element for each channel of each image, got ", x.sizes()));
  const Tensor y = group_norm(x, std::max<std::int64_t>(channels, 1), weight, bias, options.eps);
  if ((!running_mean.defined() && !running_variance.defined()) || x.numel() == 0) return y;
  const NoGrad guard;
  const Tensor each = widened(x).reshape({batch, channels, count});
  update_running(running_mean, mean(each, {0, 2}), 1, options.momentum);
  update_running(running_variance, mean(var(each, {2}), {0}), 1, options.momentum);
  return y;
}

}  // namespace lockstep
