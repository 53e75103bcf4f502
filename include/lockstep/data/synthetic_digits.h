// SyntheticDigits: images of digits, drawn on the spot, for a model to learn where no file is at hand.
// Safe to read from several threads at once.
#pragma once

#include <cstdint>
#include <tuple>

#include <lockstep/core/export.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

struct SyntheticDigitsOptions {
  std::uint64_t seed = 0;        ///< Other seeds give other images.
  std::int64_t image_size = 28;  ///< Height and width, from 8 on.
  double noise = 0.1;            ///< Standard deviation of what is added to each pixel, before it is clamped to [0, 1].
};

/// A Dataset of `count` samples (image, label): float32 [1, image_size, image_size] in [0, 1] on the CPU, white on
/// black, and the digit, int64. Each is drawn with strokes of its own slant, turn, size, place, shape and width. Image
/// i of a seed is always the same one. All ten digits are equally likely.
class LOCKSTEP_API SyntheticDigits {
 public:
  /// Throws InvalidArgument for a negative count or noise, or an image size less than 8 or more than 4096.
  explicit SyntheticDigits(std::int64_t count, const SyntheticDigitsOptions& options = {});

  std::int64_t size() const noexcept { return count_; }
  /// Throws InvalidArgument unless 0 <= index < size().
  std::tuple<Tensor, std::int64_t> get(std::int64_t index) const;

 private:
  std::int64_t count_;
  SyntheticDigitsOptions options_;
};

}  // namespace lockstep::data
