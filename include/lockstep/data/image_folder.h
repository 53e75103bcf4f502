// ImageFolder: a dataset of images with one folder per class, as torchvision's. Safe to read from several threads at
// once.
//
//   const data::ImageFolder dataset("photos");                  // photos/ant/1.jpg, photos/bee/2.png
//   data::MapDataset(dataset, transforms::Compose(transforms::ToFloat(), transforms::Resize({224, 224})));
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/data/image.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

/// Samples (image, label): uint8 [3, height, width] on the CPU, each image in its own size, and the int64 class number.
/// Grey images get three equal channels; alpha is dropped. Classes are the folders in `root`, sorted by name. Samples
/// are ordered by class, then by folder and name. Files named *.png, *.jpg and *.jpeg, in any case and at any depth,
/// are included.
class LOCKSTEP_API ImageFolder {
 public:
  /// Lists the files without opening them. Throws InvalidArgument if `root` has no folders or a class has no images,
  /// and IoError if a folder cannot be read.
  explicit ImageFolder(const std::filesystem::path& root, const ImageOptions& options = {});

  std::int64_t size() const noexcept { return std::int64_t(samples_.size()); }
  /// Reads a file; throws as read_image() does, and InvalidArgument unless 0 <= index < size().
  std::tuple<Tensor, std::int64_t> get(std::int64_t index) const;

  /// Class names; a label is an index into them.
  const std::vector<std::string>& classes() const noexcept { return classes_; }
  /// Files with their labels.
  const std::vector<std::pair<std::filesystem::path, std::int64_t>>& samples() const noexcept { return samples_; }

 private:
  std::vector<std::string> classes_;
  std::vector<std::pair<std::filesystem::path, std::int64_t>> samples_;
  ImageOptions options_;
};

}  // namespace lockstep::data
