// Images are ordered as by torchvision's make_dataset(): by class, then by folder, then by name.
#include <lockstep/data/image_folder.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include <lockstep/core/error.h>
#include <lockstep/data/datasets.h>

#include "core/expect.h"
#include "io/path.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kImageEndings = {".png", ".jpg", ".jpeg"};

bool is_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return std::ranges::find(kImageEndings, ending) != kImageEndings.end();
}

void check_read(const fs::path& folder, const std::error_code& error) {
  if (error) throw IoError("read", folder.string(), error.value());
}

std::vector<std::string> folders_in(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto at = fs::directory_iterator(root, error); !error && at != fs::directory_iterator(); at.increment(error))
    if (std::error_code ignored; at->is_directory(ignored)) names.push_back(at->path().filename().string());
  check_read(root, error);
  std::ranges::sort(names);
  return names;
}

std::vector<fs::path> images_in(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> names;  // the folder, and the file in it
  std::error_code error;
  auto at = fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error))
    if (std::error_code ignored; is_image_name(at->path()) && at->is_regular_file(ignored))
      names.emplace_back(at->path().parent_path().string(), at->path().filename().string());
  check_read(folder, error);
  std::ranges::sort(names);
  std::vector<fs::path> images;
  for (const auto& [parent, name] : names) images.push_back(fs::path(parent) / name);
  return images;
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& root, const ImageOptions& options) : options_(options) {
  check_path("ImageFolder", root);
  classes_ = folders_in(root);
  expect(!classes_.empty(), "ImageFolder", "a folder for each class in ", root, ", got none");
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    const std::vector<fs::path> images = images_in(root / classes_[label]);
    expect(!images.empty(), "ImageFolder", "images (*.png, *.jpg, *.jpeg) of each class, got none in ",
           root / classes_[label], ": remove the folder, or fill it");
    for (const fs::path& image : images) samples_.emplace_back(image, std::int64_t(label));
  }
}

std::tuple<Tensor, std::int64_t> ImageFolder::get(std::int64_t index) const {
  detail::check_index("ImageFolder", index, size());
  const auto& [path, label] = samples_[std::size_t(index)];
  const Tensor image = read_image(path, options_);
  const std::int64_t channels = image.size(0);
  if (channels == 3) return {image, label};
  if (channels == 4) return {image.narrow(0, 0, 3).contiguous(), label};
  return {image.narrow(0, 0, 1).expand({3, image.size(1), image.size(2)}).contiguous(), label};
}

}  // namespace lockstep::data
