// Random image transforms beyond the crop and the flip of transforms.h. The top of that file says which images they
// take, where their random numbers come from, and that several threads may call them. Names, ranges and probabilities
// are torchvision's.
//
//   const transforms::Compose prepared(transforms::ToFloat(), transforms::RandomResizedCrop({32, 32}),
//                                      transforms::ColorJitter({.brightness = 0.4, .contrast = 0.4}),
//                                      transforms::RandomErasing());
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <lockstep/core/choice.h>
#include <lockstep/core/export.h>
#include <lockstep/ops/interpolate.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data::transforms {

/// Lower and upper bound.
using Range = std::array<double, 2>;

/// Flips the image upside down with probability p.
class LOCKSTEP_API RandomVerticalFlip {
 public:
  /// Throws InvalidArgument unless 0 <= p <= 1.
  explicit RandomVerticalFlip(double p = 0.5);
  Tensor operator()(const Tensor& image) const;  ///< Flips the image, or returns it unchanged.

 private:
  double p_;
};

struct RandomRotationOptions {
  Choice<Interpolation> interpolation = Interpolation::nearest;  ///< "nearest" or "bilinear".
  double fill = 0;                                               ///< The value of pixels from outside the image.
};

/// Rotates the image about its centre, counterclockwise, by a random angle in degrees. The size stays the same.
class LOCKSTEP_API RandomRotation {
 public:
  /// The angle is from [-degrees, degrees]. Throws InvalidArgument for negative degrees, and for other interpolations.
  explicit RandomRotation(double degrees, const RandomRotationOptions& options = {});
  explicit RandomRotation(Range degrees, const RandomRotationOptions& options = {});
  Tensor operator()(const Tensor& image) const;  ///< Takes any dtype; "bilinear" needs a floating one.

 private:
  Range degrees_;
  RandomRotationOptions options_;
};

struct RandomResizedCropOptions {
  Range scale = {0.08, 1};         ///< The window's area as a fraction of the image's.
  Range ratio = {3. / 4, 4. / 3};  ///< The window's width / height; its logarithm is uniform.
};

/// Cuts out a window of random size, aspect ratio and position, and resizes it as Resize does (bilinear, no
/// antialiasing). If ten random sizes do not fit, takes the largest centred window whose ratio is in the range.
class LOCKSTEP_API RandomResizedCrop {
 public:
  /// Throws InvalidArgument for a size less than 1, and for ranges that are not positive or whose bounds are reversed.
  explicit RandomResizedCrop(std::array<std::int64_t, 2> size, const RandomResizedCropOptions& options = {});
  Tensor operator()(const Tensor& image) const;  ///< Throws DTypeError unless the image is floating.

 private:
  std::array<std::int64_t, 2> size_;
  RandomResizedCropOptions options_;
};

struct RandomErasingOptions {
  double p = 0.5;              ///< The probability that a rectangle is erased.
  Range scale = {0.02, 0.33};  ///< The rectangle's area as a fraction of the image's.
  Range ratio = {0.3, 3.3};    ///< The rectangle's height / width; its logarithm is uniform.
  double value = 0;            ///< The value of erased pixels.
};

/// Fills a rectangle at a random place. If ten random sizes do not fit, fills nothing. The input image is not changed.
class LOCKSTEP_API RandomErasing {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit RandomErasing(const RandomErasingOptions& options = {});
  Tensor operator()(const Tensor& image) const;  ///< Returns a changed copy, or the image itself.

 private:
  RandomErasingOptions options_;
};

/// A range given by its half width, `0.4`, about 1 (about 0 for hue), or by its bounds, `{0.8, 1.2}`.
class LOCKSTEP_API JitterRange {
 public:
  JitterRange(double about) : about_(about) {}
  JitterRange(double low, double high) : range_({low, high}) {}
  /// The range of a factor, cut off at 0. Throws InvalidArgument naming `option`.
  Range of_factor(const char* option) const;
  /// The range of a shift of the hue, within [-0.5, 0.5]. Throws InvalidArgument.
  Range of_hue() const;

 private:
  double about_ = 0;
  std::optional<Range> range_;
};

struct ColorJitterOptions {
  JitterRange brightness = 0;  ///< Factor of all pixel values.
  JitterRange contrast = 0;    ///< Factor of the difference between a pixel and the mean of the grey image.
  /// Factor of the difference between a pixel and the grey image. Without effect on an image of one channel.
  JitterRange saturation = 0;
  JitterRange hue = 0;  ///< Shift of the hue; 1 is a whole circle. Without effect on an image of one channel.
};

/// Changes brightness, contrast, saturation and hue by random amounts, in random order. Clamps the result to [0, 1].
class LOCKSTEP_API ColorJitter {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit ColorJitter(const ColorJitterOptions& options = {});
  /// The image must be floating, with values in [0, 1], and have 1 or 3 channels. Throws DTypeError and ShapeError.
  Tensor operator()(const Tensor& image) const;

 private:
  Range brightness_, contrast_, saturation_, hue_;
};

}  // namespace lockstep::data::transforms
