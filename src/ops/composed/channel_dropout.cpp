// Dropout of channels and dropout for selu, made of dropout() of a tensor of ones.
#include <cmath>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/tensor/batch_shard.h>
#include <lockstep/tensor/creation.h>

#include "ops/dtypes.h"

namespace lockstep {
namespace {

void check_dropout(const char* op, const Tensor& x, double p) {
  check_floating(op, x);
  if (!(p >= 0 && p <= 1)) throw InvalidArgument(text("[", op, "] expected a probability from 0 to 1, got ", p));
}

// The shape [batch, channels, 1, ...].
Shape one_for_each_channel(const char* op, const Tensor& x) {
  if (x.dim() < 2) throw ShapeError(text("[", op, "] expected x [batch, channels, ...], got ", x.sizes()));
  Shape sizes = Shape::filled(x.dim(), 1);
  sizes[0] = x.size(0);
  sizes[1] = x.size(1);
  return sizes;
}

Tensor kept(const Tensor& x, const Shape& sizes, double p) { return dropout(ones(sizes, x.options()), p); }

Tensor kept_channels(const Tensor& x, const Shape& channels, double p) {
  const BatchDim first(0);
  return kept(x, channels, p);
}

// keep: 1 / (1 - p) for elements that stay, else 0.
Tensor alpha_dropped(const Tensor& x, const Tensor& keep, double p) {
  constexpr double kAlpha = 1.7580993408473766;  // the scale of selu times its alpha
  const double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const Tensor stays = keep * (1 - p);
  return x * (stays * scale) + ((stays - 1) * (kAlpha * scale) + kAlpha * scale * p);
}

}  // namespace

Tensor channel_dropout(const Tensor& x, double p, bool training) {
  check_dropout("channel_dropout", x, p);
  const Shape channels = one_for_each_channel("channel_dropout", x);
  return training && p > 0 ? x * kept_channels(x, channels, p) : x;
}

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  check_dropout("alpha_dropout", x, p);
  if (!training || p == 0) return x;
  return p == 1 ? x * 0 : alpha_dropped(x, kept(x, x.sizes(), p), p);
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training) {
  check_dropout("feature_alpha_dropout", x, p);
  const Shape channels = one_for_each_channel("feature_alpha_dropout", x);
  if (!training || p == 0) return x;
  return p == 1 ? x * 0 : alpha_dropped(x, kept_channels(x, channels, p), p);
}

}  // namespace lockstep
