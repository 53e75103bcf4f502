// Transforms: functions of an image, [channels, height, width] on any device, mostly for a MapDataset. Random
// transforms draw from the thread's random sequence, which in a loader depends on the loader's seed, the epoch and the
// sample's index. Safe to call from several threads at once.
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

/// Applies transforms in order.
template <class... Transforms>
class Compose {
 public:
  explicit Compose(Transforms... transforms) : transforms_(std::move(transforms)...) {}

  /// Applies all transforms, in order.
  Tensor operator()(Tensor image) const {
    std::apply([&](const auto&... transform) { ((image = transform(image)), ...); }, transforms_);
    return image;
  }

 private:
  std::tuple<Transforms...> transforms_;
};

/// Converts to float32; uint8 values are divided by 255, other dtypes keep their values.
struct LOCKSTEP_API ToFloat {
  Tensor operator()(const Tensor& image) const;  ///< Converts the image.
};

/// (image - mean) / std, per channel or with one mean and std for all. The image must be floating.
class LOCKSTEP_API Normalize {
 public:
  /// Throws InvalidArgument for lists that are empty or differ in length, and for a 0 in `std`.
  Normalize(std::vector<double> mean, std::vector<double> std);
  /// Throws DTypeError for an image that is not floating, ShapeError for another number of channels.
  Tensor operator()(const Tensor& image) const;

 private:
  std::vector<double> mean_, std_;
};

struct RandomCropOptions {
  std::int64_t padding = 0;  ///< Pixels of `fill` added on each side first.
  double fill = 0;           ///< The value of added pixels.
};

/// Cuts out a window of the given height and width, at a uniformly random position.
class LOCKSTEP_API RandomCrop {
 public:
  /// Throws InvalidArgument for a size less than 1 and for negative padding.
  explicit RandomCrop(std::array<std::int64_t, 2> size, const RandomCropOptions& options = {});
  /// Throws ShapeError if the padded image is smaller than the window.
  Tensor operator()(const Tensor& image) const;

 private:
  std::array<std::int64_t, 2> size_;
  RandomCropOptions options_;
};

/// Cuts out the centred window of the given height and width. If the centre falls between two pixels, the window begins
/// at the even pixel, as in torchvision.
class LOCKSTEP_API CenterCrop {
 public:
  /// Throws InvalidArgument for a size less than 1.
  explicit CenterCrop(std::array<std::int64_t, 2> size);
  /// Throws ShapeError if the image is smaller than the window.
  Tensor operator()(const Tensor& image) const;

 private:
  std::array<std::int64_t, 2> size_;
};

/// Resizes to the given height and width, bilinear without antialiasing. The image must be floating.
class LOCKSTEP_API Resize {
 public:
  /// Throws InvalidArgument for a size less than 1.
  explicit Resize(std::array<std::int64_t, 2> size);
  /// Throws DTypeError for an image that is not floating.
  Tensor operator()(const Tensor& image) const;

 private:
  std::array<std::int64_t, 2> size_;
};

/// Swaps left and right with the given probability.
class LOCKSTEP_API RandomHorizontalFlip {
 public:
  /// Throws InvalidArgument unless 0 <= probability <= 1.
  explicit RandomHorizontalFlip(double probability = 0.5);
  Tensor operator()(const Tensor& image) const;  ///< Flips the image, or returns it unchanged.

 private:
  double probability_;
};

}  // namespace lockstep::data::transforms
