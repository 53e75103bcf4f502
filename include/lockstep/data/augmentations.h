// Transforms that change an image at random, beyond the crop and the flip of transforms.h, whose description holds here
// too. Names, ranges and probabilities are torchvision's.
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

/// From the first number to the second.
using Range = std::array<double, 2>;

/// Mirrors top and bottom with that probability.
class LOCKSTEP_API RandomVerticalFlip {
 public:
  /// Throws InvalidArgument unless 0 <= p <= 1.
  explicit RandomVerticalFlip(double p = 0.5);
  Tensor operator()(const Tensor& image) const;  ///< Mirrors it, or returns it as it is.

 private:
  double p_;
};

struct RandomRotationOptions {
  Choice<Interpolation> interpolation = Interpolation::nearest;  ///< Between the pixels: "nearest" or "bilinear".
  double fill = 0;                                               ///< Of what comes in from outside.
};

/// Turns the image about its middle, counterclockwise, by an angle in degrees from a range. The size stays.
class LOCKSTEP_API RandomRotation {
 public:
  /// From -degrees to degrees. Throws InvalidArgument for a negative one, and for another interpolation.
  explicit RandomRotation(double degrees, const RandomRotationOptions& options = {});
  explicit RandomRotation(Range degrees, const RandomRotationOptions& options = {});
  Tensor operator()(const Tensor& image) const;  ///< Of any dtype; of a floating one with "bilinear".

 private:
  Range degrees_;
  RandomRotationOptions options_;
};

struct RandomResizedCropOptions {
  Range scale = {0.08, 1};         ///< The window's part of the image's area.
  Range ratio = {3. / 4, 4. / 3};  ///< Its width by its height; the logarithm is uniform.
};

/// A window of random size, form and place, resized as Resize does (bilinearly, without antialiasing). After ten sizes
/// that do not fit, the greatest window in the middle whose ratio is in the range.
class LOCKSTEP_API RandomResizedCrop {
 public:
  /// Throws InvalidArgument for a size less than 1 and for ranges that are not positive or fall.
  explicit RandomResizedCrop(std::array<std::int64_t, 2> size, const RandomResizedCropOptions& options = {});
  Tensor operator()(const Tensor& image) const;  ///< Floating, else DTypeError.

 private:
  std::array<std::int64_t, 2> size_;
  RandomResizedCropOptions options_;
};

struct RandomErasingOptions {
  double p = 0.5;              ///< The probability.
  Range scale = {0.02, 0.33};  ///< The rectangle's part of the image's area.
  Range ratio = {0.3, 3.3};    ///< Its height by its width; the logarithm is uniform.
  double value = 0;            ///< What it is filled with.
};

/// Fills a rectangle at a random place, or none after ten sizes that do not fit. The image given stays as it is.
class LOCKSTEP_API RandomErasing {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit RandomErasing(const RandomErasingOptions& options = {});
  Tensor operator()(const Tensor& image) const;  ///< A changed copy, or the image.

 private:
  RandomErasingOptions options_;
};

/// A range about 1 (of hue, about 0), or the range itself: `0.4`, or `{0.8, 1.2}`.
class LOCKSTEP_API JitterRange {
 public:
  JitterRange(double about) : about_(about) {}
  JitterRange(double low, double high) : range_({low, high}) {}
  /// Of a factor, from 0 on. Throws InvalidArgument naming `option`.
  Range of_factor(const char* option) const;
  /// Of a shift in [-0.5, 0.5]. Throws InvalidArgument.
  Range of_hue() const;

 private:
  double about_ = 0;
  std::optional<Range> range_;
};

struct ColorJitterOptions {
  JitterRange brightness = 0;  ///< The factor of all pixels.
  JitterRange contrast = 0;    ///< How far pixels are from the mean of the grey image.
  JitterRange saturation = 0;  ///< How far pixels are from the grey image. Nothing for one channel.
  JitterRange hue = 0;         ///< The shift of the hue, of which 1 is a whole circle. Nothing for one channel.
};

/// Changes brightness, contrast, saturation and hue by random factors, in a random order. The result is held in [0, 1].
class LOCKSTEP_API ColorJitter {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit ColorJitter(const ColorJitterOptions& options = {});
  /// The image is floating, with values in [0, 1], and has 1 or 3 channels: else DTypeError, ShapeError.
  Tensor operator()(const Tensor& image) const;

 private:
  Range brightness_, contrast_, saturation_, hue_;
};

}  // namespace lockstep::data::transforms
