// Rotary embeddings: pairs of features are rotated by an angle that grows with the position.
#include <cmath>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/attention.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/unary.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "ops/dtypes.h"

namespace lockstep {
namespace {

constexpr const char* kRotary = "rotary_embedding";

std::int64_t pairs_of(const Tensor& x) {
  check_floating(kRotary, x);
  if (x.dim() < 2 || x.size(-1) % 2 != 0)
    throw ShapeError(
        text("[", kRotary, "] expected x [..., length, features] with an even number of features, got ", x.sizes()));
  return x.size(-1) / 2;
}

}  // namespace

Tensor rotary_embedding(const Tensor& x, const Tensor& cosines, const Tensor& sines, RotaryPairs pairs) {
  const std::int64_t half = pairs_of(x);
  Shape angles = x.sizes();
  angles[x.dim() - 1] = half;
  for (const Tensor* table : {&cosines, &sines}) {
    check_same_device(kRotary, x, *table);
    if (table->dtype() != x.dtype())
      throw DTypeError(text("[", kRotary, "] expected cosines and sines of ", x.dtype(), ", got ", table->dtype()));
    if (broadcast(kRotary, angles, table->sizes()) != angles)
      throw ShapeError(
          text("[", kRotary, "] expected cosines and sines that broadcast to ", angles, ", got ", table->sizes()));
  }
  if (pairs == RotaryPairs::halves) {
    const Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
    return cat({a * cosines - b * sines, b * cosines + a * sines}, -1);
  }
  Shape split = angles;
  split.push_back(2);
  const Tensor both = x.reshape(split), a = both.select(-1, 0), b = both.select(-1, 1);
  return stack({a * cosines - b * sines, b * cosines + a * sines}, -1).reshape(x.sizes());
}

Tensor rotary_embedding(const Tensor& x, const Tensor& positions, const RotaryOptions& options) {
  const std::int64_t half = pairs_of(x);
  check_same_device(kRotary, x, positions);
  // Angles need more precision than 16-bit floats have.
  const TensorOptions wide = {.dtype = wide_dtype(x.dtype()), .device = x.device()};
  const Tensor powers = arange(0, double(half), 1, wide) * (-std::log(options.base) / double(half > 0 ? half : 1));
  const Tensor angles = positions.to(*wide.dtype).unsqueeze(-1) * exp(powers);
  return rotary_embedding(x, cos(angles).to(x.dtype()), sin(angles).to(x.dtype()), options.pairs);
}

}  // namespace lockstep
