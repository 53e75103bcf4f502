// lerp: computed from the nearer end, so that both ends are exact.
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/unary.h>

#include <cmath>

#include "ops/dtypes.h"

namespace lockstep {

Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  const Tensor way = b - a;
  check_floating("lerp", way);
  return std::abs(weight) < 0.5 ? a + way * weight : b - way * (1 - weight);
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  const Tensor way = b - a;
  check_floating("lerp", way);
  return where(abs(weight) < 0.5, a + way * weight, b - way * (1 - weight));
}

}  // namespace lockstep
