#include <lockstep/nn/batch_norm.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"

namespace lockstep::nn {
namespace {

Tensor or_nothing(const auto& state) { return state ? Tensor(*state) : Tensor(); }

}  // namespace

BatchNormState::BatchNormState(const char* layer, std::int64_t features, const BatchNormLayerOptions& options,
                               BufferSync sync)
    : features_(features), eps_(options.eps), momentum_(options.momentum) {
  if (features < 0)
    throw InvalidArgument(text("[", layer, "] expected a number of features of at least 0, got ", features));
  const TensorOptions like = {.dtype = options.tensor.dtype, .device = options.tensor.device};
  if (options.affine) {
    weight.emplace(ones({features}, like));
    bias.emplace(zeros({features}, like));
  }
  if (options.track_running_stats) {
    running_mean.emplace(zeros({features}, like), sync);
    running_var.emplace(ones({features}, like), sync);
    num_batches_tracked.emplace(zeros({}, {.dtype = kInt64, .device = like.device}), BufferSync::equal);
  }
}

Tensor BatchNormState::normalize(const char* layer, decltype(&batch_norm) function, const Tensor& x, bool training) {
  if (x.dim() != 2 && x.dim() != 3)
    throw ShapeError(
        text("[", layer, "] expected x [batch, ", features_, "] or [batch, ", features_, ", length], got ", x.sizes()));
  if (x.size(1) != features_)
    throw ShapeError(text("[", layer, "] expected x of ", features_, " features, got ", x.sizes()));
  const Tensor result =
      function(x, or_nothing(running_mean), or_nothing(running_var), or_nothing(weight), or_nothing(bias),
               {.training = training || !running_mean, .momentum = momentum_, .eps = eps_});
  if (training && num_batches_tracked) {
    const NoGrad guard;
    num_batches_tracked->add_(ones({}, {.dtype = kInt64, .device = num_batches_tracked->device()}));
  }
  return result;
}

BatchNorm1d::BatchNorm1d(std::int64_t features, const BatchNormLayerOptions& options)
    : BatchNormState("BatchNorm1d", features, options, BufferSync::mean) {}

Tensor BatchNorm1d::forward(const Tensor& x) { return normalize("BatchNorm1d", &batch_norm, x, is_training()); }

}  // namespace lockstep::nn
