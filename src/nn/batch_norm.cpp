#include <lockstep/nn/batch_norm.h>

#include <ostream>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "nn/layer_parameters.h"

namespace lockstep::nn {

BatchNormState::BatchNormState(const char* layer, Ranks ranks, std::optional<std::int64_t> features,
                               const BatchNormLayerOptions& options, BufferSync sync)
    : layer_(layer), ranks_(ranks), eps_(options.eps), momentum_(options.momentum) {
  if (features.value_or(0) < 0)
    throw InvalidArgument(text("[", layer, "] expected a number of features of at least 0, got ", *features));
  if (options.affine) {
    weight.emplace(Parameter::lazy({-1}));
    bias.emplace(Parameter::lazy({-1}));
  }
  if (options.track_running_stats) {
    running_mean.emplace(Buffer::lazy(sync));
    running_var.emplace(Buffer::lazy(sync));
    num_batches_tracked.emplace(zeros({}, {.dtype = kInt64, .device = options.tensor.device}), BufferSync::equal);
  }
  if (features) make(*features, options.tensor);
}

void BatchNormState::make(std::int64_t features, const TensorOptions& options) {
  num_features = features;
  const TensorOptions like = {.dtype = options.dtype, .device = options.device};
  if (weight) {
    *weight = Parameter(ones({features}, like));
    *bias = Parameter(zeros({features}, like));
  }
  if (!running_mean) return;
  *running_mean = Buffer(zeros({features}, like), running_mean->sync());
  *running_var = Buffer(ones({features}, like), running_var->sync());
  if (options.device) num_batches_tracked->place(*options.device);
}

// Makes the parameters of a lazy layer, unless a state dict has set them.
void BatchNormState::initialize_parameters(const Tensor& x) {
  if (num_features >= 0) return;
  for (const Tensor& known : {tensor_or_none(weight), tensor_or_none(running_mean)})
    if (known.defined()) {
      num_features = known.numel();
      return;
    }
  make(x.size(1), x.options());
}

Tensor BatchNormState::normalize(decltype(&batch_norm) function, const Tensor& x, bool training) {
  if (x.dim() < ranks_.least || x.dim() > ranks_.most) {
    const std::string features = num_features < 0 ? "features" : text(num_features);
    throw ShapeError(ranks_.least != 2 ? text("[", layer_, "] expected x [batch, ", features, ", ...] of ",
                                              ranks_.least, " dimensions, got ", x.sizes())
                     : ranks_.most > 3 ? text("[", layer_, "] expected x [batch, ", features, ", ...], got ", x.sizes())
                                       : text("[", layer_, "] expected x [batch, ", features, "] or [batch, ", features,
                                              ", length], got ", x.sizes()));
  }
  initialize_parameters(x);
  if (x.size(1) != num_features)
    throw ShapeError(text("[", layer_, "] expected x of ", num_features, " features, got ", x.sizes()));
  const Tensor result =
      function(x, tensor_or_none(running_mean), tensor_or_none(running_var), tensor_or_none(weight),
               tensor_or_none(bias), {.training = training || !running_mean, .momentum = momentum_, .eps = eps_});
  if (training && num_batches_tracked && function != &instance_norm) {  // PyTorch's instance norm does not count
    const NoGrad guard;
    num_batches_tracked->add_(1);
  }
  return result;
}

void BatchNormState::print(std::ostream& out) const {
  out << layer_ << '(' << num_features << ", eps=" << eps_ << ", momentum=" << momentum_
      << ", affine=" << (weight ? "True" : "False") << ", track_running_stats=" << (running_mean ? "True" : "False")
      << ')';
}

}  // namespace lockstep::nn
