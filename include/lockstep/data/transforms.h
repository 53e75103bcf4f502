// Transforms: functions of an image, [channels, height, width] on any device, mostly for a MapDataset. Those that are
// random draw from the thread's sequence: in a loader, by its seed, the epoch and the index of the sample.
// Safe to call from several threads at once.
//
//   const transforms::Compose prepared(transforms::ToFloat(), transforms::RandomCrop({32, 32}, {.padding = 4}));
//   data::MapDataset(data::TensorDataset(set.images, set.labels), prepared);
#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data::transforms {

/// One after the other.
template <class... Transforms>
class Compose {
 public:
  explicit Compose(Transforms... transforms) : transforms_(std::move(transforms)...) {}

  /// Applies all in order.
  Tensor operator()(Tensor image) const {
    std::apply([&](const auto&... transform) { ((image = transform(image)), ...); }, transforms_);
    return image;
  }

 private:
  std::tuple<Transforms...> transforms_;
};

/// float32: of uint8, divided by 255; of another dtype, the values as they are.
struct LOCKSTEP_API ToFloat {
  Tensor operator()(const Tensor& image) const;  ///< Converts the image.
};

/// (image - mean) / std, for each channel or one for all. The image is of a floating dtype.
class LOCKSTEP_API Normalize {
 public:
  /// Throws InvalidArgument for lists of different lengths, for empty ones, and where a number of `std` is 0.
  Normalize(std::vector<double> mean, std::vector<double> std);
  /// Throws DTypeError for another dtype, and ShapeError for another number of channels.
  Tensor operator()(const Tensor& image) const;

 private:
  std::vector<double> mean_, std_;
};

struct RandomCropOptions {
  std::int64_t padding = 0;  ///< Pixels of `fill` added on each side first.
  double fill = 0;           ///< The value of added pixels.
};

/// A window of that height and width, each place equally likely.
class LOCKSTEP_API RandomCrop {
 public:
  /// Throws InvalidArgument for a size less than 1 and for negative padding.
  explicit RandomCrop(std::array<std::int64_t, 2> size, const RandomCropOptions& options = {});
  /// Throws ShapeError where the padded image is smaller than the window.
  Tensor operator()(const Tensor& image) const;

 private:
  std::array<std::int64_t, 2> size_;
  RandomCropOptions options_;
};

/// The window of that height and width in the middle. Where that is between two pixels, it begins at the even one, as
/// torchvision's does.
class LOCKSTEP_API CenterCrop {
 public:
  /// Throws InvalidArgument for a size less than 1.
  explicit CenterCrop(std::array<std::int64_t, 2> size);
  /// Throws ShapeError where the image is smaller than the window.
  Tensor operator()(const Tensor& image) const;

 private:
  std::array<std::int64_t, 2> size_;
};

/// Another height and width, bilinearly and without antialiasing. The image is of a floating dtype.
class LOCKSTEP_API Resize {
 public:
  /// Throws InvalidArgument for a size less than 1.
  explicit Resize(std::array<std::int64_t, 2> size);
  /// Throws DTypeError for another dtype.
  Tensor operator()(const Tensor& image) const;

 private:
  std::array<std::int64_t, 2> size_;
};

/// Mirrors left and right with that probability.
class LOCKSTEP_API RandomHorizontalFlip {
 public:
  /// Throws InvalidArgument unless 0 <= probability <= 1.
  explicit RandomHorizontalFlip(double probability = 0.5);
  Tensor operator()(const Tensor& image) const;  ///< Mirrors it, or returns it as it is.

 private:
  double probability_;
};

}  // namespace lockstep::data::transforms
