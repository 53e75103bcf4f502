// SyntheticDigits: generated images of digits, to train on without any file. Safe to read from several threads at once.
#pragma once

#include <cstdint>
#include <tuple>

#include <lockstep/core/export.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

struct SyntheticDigitsOptions {
  std::uint64_t seed = 0;        ///< Determines the images.
  std::int64_t image_size = 28;  ///< Height and width; at least 8.
  double noise = 0.1;            ///< Standard deviation of the noise on each pixel, which is then clamped to [0, 1].
};

/// A Dataset of `count` samples (image, label): float32 [1, image_size, image_size] in [0, 1] on the CPU, white on
/// black, and the digit, int64. Slant, rotation, size, position, shape and stroke width vary by image. The seed and the
/// index determine the image. All ten digits are equally likely.
class LOCKSTEP_API SyntheticDigits {
 public:
  /// Throws InvalidArgument for a negative count or noise, and an image size less than 8 or more than 4096.
  explicit SyntheticDigits(std::int64_t count, const SyntheticDigitsOptions& options = {});

  std::int64_t size() const noexcept { return count_; }
  /// Throws InvalidArgument unless 0 <= index < size().
  std::tuple<Tensor, std::int64_t> get(std::int64_t index) const;

 private:
  std::int64_t count_;
  SyntheticDigitsOptions options_;
};

}  // namespace lockstep::data
