// Shared helpers of transforms: random numbers from the thread's sequence, and argument checks.
#pragma once

#include <array>
#include <cstdint>

#include <lockstep/core/error.h>
#include <lockstep/tensor/random.h>
#include <lockstep/tensor/tensor.h>

#include "core/expect.h"
#include "tensor/philox.h"

namespace lockstep::data::transforms {

inline PhiloxBlock random_block() {
  const GeneratorState point = draw(1);
  return philox(philox_counter(point.stream, point.offset), philox_key(point.seed));
}

/// A uniform number in [low, high).
inline double random_between(double low, double high) {
  return low + (high - low) * to_uniform(random_block().wide(0));
}
/// A uniform integer in 0 ... count - 1.
inline std::int64_t random_below(std::int64_t count) {
  return std::int64_t(to_range(random_block().wide(0), std::uint64_t(count)));
}

inline void check_image(const char* op, const Tensor& image) {
  expect<ShapeError>(image.dim() == 3, op, "an image [channels, height, width], got ", image.sizes());
}
inline void check_floating_image(const char* op, const Tensor& image) {
  check_image(op, image);
  expect<DTypeError>(is_floating(image.dtype()), op, "a floating dtype, got ", image.dtype(), ": use ToFloat first");
}
inline void check_size(const char* op, const std::array<std::int64_t, 2>& size) {
  expect(size[0] >= 1 && size[1] >= 1, op, "a height and width of at least 1, got ", size[0], " and ", size[1]);
}
inline void check_probability(const char* op, double p) {
  expect(p >= 0 && p <= 1, op, "a probability from 0 to 1, got ", p);
}

}  // namespace lockstep::data::transforms
