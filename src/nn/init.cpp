#include <lockstep/nn/init.h>

#include <cmath>

#include <lockstep/autograd/grad_mode.h>

#include "core/text.h"

namespace lockstep::nn::init {
namespace {

double fan_of(const char* op, const Tensor& weight, Fan fan) {
  if (!is_floating(weight.dtype()))
    throw DTypeError(text("[", op, "] expected a floating dtype, got ", weight.dtype()));
  if (weight.dim() < 2) throw ShapeError(text("[", op, "] expected a weight [out, in, ...], got ", weight.sizes()));
  double count = double(weight.size(fan == Fan::in ? 1 : 0));
  for (int i = 2; i < weight.dim(); ++i) count *= double(weight.size(i));
  return count;
}

double xavier_deviation(const char* op, const Tensor& weight, double gain) {
  return gain * std::sqrt(2 / (fan_of(op, weight, Fan::in) + fan_of(op, weight, Fan::out)));
}

double kaiming_deviation(const char* op, const Tensor& weight, const KaimingOptions& options) {
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(fan_of(op, weight, options.mode));
}

// A uniform distribution over [-bound, bound] has variance bound^2 / 3.
void fill_uniform(Tensor& weight, double deviation) {
  if (weight.numel() > 0) uniform_(weight, -std::sqrt(3) * deviation, std::sqrt(3) * deviation);
}
void fill_normal(Tensor& weight, double deviation) {
  if (weight.numel() > 0) normal_(weight, 0, deviation);
}

}  // namespace

double calculate_gain(Choice<GainOf> nonlinearity, double param) {
  switch (nonlinearity) {
    case GainOf::tanh: return 5. / 3;
    case GainOf::relu: return std::sqrt(2);
    case GainOf::leaky_relu: return std::sqrt(2 / (1 + param * param));
    case GainOf::selu: return 0.75;
    default: return 1;
  }
}

void constant_(Tensor& tensor, double value) {
  const NoGrad guard;
  tensor.fill_(value);
}

void xavier_uniform_(Tensor& weight, double gain) {
  fill_uniform(weight, xavier_deviation("xavier_uniform_", weight, gain));
}
void xavier_normal_(Tensor& weight, double gain) {
  fill_normal(weight, xavier_deviation("xavier_normal_", weight, gain));
}
void kaiming_uniform_(Tensor& weight, const KaimingOptions& options) {
  fill_uniform(weight, kaiming_deviation("kaiming_uniform_", weight, options));
}
void kaiming_normal_(Tensor& weight, const KaimingOptions& options) {
  fill_normal(weight, kaiming_deviation("kaiming_normal_", weight, options));
}

}  // namespace lockstep::nn::init
