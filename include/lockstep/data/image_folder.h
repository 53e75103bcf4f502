// ImageFolder: a dataset of images that lie in a folder for each class, as torchvision's.
// Safe to read from several threads at once.
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

/// Samples (image, label): uint8 [3, height, width] on the CPU, of each image's own size, and the int64 number of its
/// class. Grey images have three equal channels, and opacity is left out. Classes are the folders in `root`, by their
/// sorted names. Samples are those of the first class, then those of the second, and so on; in a class they are sorted
/// by folder and name. Files named *.png, *.jpg and *.jpeg count, of any case, in folders of any depth.
class LOCKSTEP_API ImageFolder {
 public:
  /// Looks for the files, and opens none. Throws InvalidArgument where `root` has no folders, or a class has no images,
  /// and IoError where a folder cannot be read.
  explicit ImageFolder(const std::filesystem::path& root, const ImageOptions& options = {});

  std::int64_t size() const noexcept { return std::int64_t(samples_.size()); }
  /// Reads a file: throws as read_image() does, and InvalidArgument unless 0 <= index < size().
  std::tuple<Tensor, std::int64_t> get(std::int64_t index) const;

  const std::vector<std::string>& classes() const noexcept { return classes_; }  ///< Their names: a label is a place.
  /// Files with their labels.
  const std::vector<std::pair<std::filesystem::path, std::int64_t>>& samples() const noexcept { return samples_; }

 private:
  std::vector<std::string> classes_;
  std::vector<std::pair<std::filesystem::path, std::int64_t>> samples_;
  ImageOptions options_;
};

}  // namespace lockstep::data
