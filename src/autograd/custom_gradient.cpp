#include "autograd/record.h"
#include "core/text.h"

namespace lockstep {
namespace {

struct Like {
  Shape sizes;
  DType dtype;
  Device device;
};

void check_fits(const char* name, const Tensor& gradient, const Like& input, std::size_t index) {
  const Like got = {gradient.sizes(), gradient.dtype(), gradient.device()};
  if (got.sizes != input.sizes || got.dtype != input.dtype || got.device != input.device)
    throw AutogradError(text("[", name, "] expected backward to return a gradient ", input.sizes, ' ', input.dtype,
                             " on ", input.device, " for input ", index, ", got ", got.sizes, ' ', got.dtype, " on ",
                             got.device));
}

}  // namespace

Tensor custom_gradient(const char* name, const Tensor& result, std::span<const Tensor> inputs,
                       CustomBackward backward) {
  impl_of(name, result);
  std::vector<Like> likes;
  for (const Tensor& input : inputs) likes.push_back({impl_of(name, input).sizes, input.dtype(), input.device()});
  if (!is_floating(result.dtype()))
    throw DTypeError(text("[", name, "] expected a floating result, got ", result.dtype()));
  if (!backward) throw InvalidArgument(text("[", name, "] expected a function for backward, got an empty one"));
  Tensor out = result.detach();
  if (!autograd::any_records(inputs)) return out;
  autograd::record_many(
      name, std::span(&out, 1), inputs,
      [name, likes = std::move(likes), backward = std::move(backward)](const Tensor& g) {
        std::vector<Tensor> gradients = backward(g);
        if (gradients.size() != likes.size())
          throw AutogradError(text("[", name, "] expected ", likes.size(), " gradients, got ", gradients.size()));
        for (std::size_t i = 0; i < likes.size(); ++i)
          if (gradients[i].defined()) check_fits(name, gradients[i], likes[i], i);
        return gradients;
      });
  return out;
}

}  // namespace lockstep
