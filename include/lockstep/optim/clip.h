// Gradient clipping and scaling over all gradients of a model. The gradients of all replicas get the same bits.
#pragma once

#include <initializer_list>
#include <span>

#include <lockstep/tensor/tensor.h>

namespace lockstep::optim {

struct ClipOptions {
  double norm_type = 2;             ///< p > 0, or infinity for the greatest magnitude.
  bool error_if_nonfinite = false;  ///< Throw AutogradError, and clip nothing, for a norm that is not finite. The host
                                    ///< waits for the device.
};

/// Scales all gradients in place by min(1, max_norm / (norm + 1e-6)), where norm is the p-norm of all their elements
/// together. Replicas' gradients are scaled on their devices. Returns the norm before clipping: 0-dim, on the device of
/// the first gradient and in the gradients' dtype (0 on the first parameter's device if there is no gradient). Sums in
/// about twice the precision of double, so that the norm does not depend on how devices shard gradients. Enqueued on
/// the current streams; does not wait for them. Skips parameters without a gradient. Throws InvalidArgument for an
/// undefined parameter and for a bad max_norm or norm_type, AutogradError during a backward of a model on several
/// devices.
LOCKSTEP_API Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm,
                                    const ClipOptions& options = {});
inline Tensor clip_grad_norm_(std::initializer_list<Tensor> parameters, double max_norm,
                              const ClipOptions& options = {}) {
  return clip_grad_norm_(std::span(parameters.begin(), parameters.size()), max_norm, options);
}

/// Clamps every element of all gradients, including replicas', to [-clip_value, clip_value], in place. NaN stays NaN.
/// Throws InvalidArgument as clip_grad_norm_() does.
LOCKSTEP_API void clip_grad_value_(std::span<const Tensor> parameters, double clip_value);
inline void clip_grad_value_(std::initializer_list<Tensor> parameters, double clip_value) {
  clip_grad_value_(std::span(parameters.begin(), parameters.size()), clip_value);
}

/// Multiplies all gradients, including replicas', by a factor, in place. factor: a floating tensor of one element, on
/// any device. (Gradients of a summed loss become those of its mean if factor is 1 / the total weight.) Enqueues, and
/// does not wait. Throws ShapeError, DTypeError.
LOCKSTEP_API void scale_grad_(std::span<const Tensor> parameters, const Tensor& factor);

}  // namespace lockstep::optim

/// libtorch's namespace of these functions.
namespace lockstep::nn::utils {
using optim::clip_grad_norm_;
using optim::clip_grad_value_;
}  // namespace lockstep::nn::utils
