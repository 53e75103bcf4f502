#include <lockstep/data/transforms.h>

#include <lockstep/core/error.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/interpolate.h>
#include <lockstep/ops/layout.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "data/transform_random.h"

namespace lockstep::data::transforms {
namespace {

// Returns round(room / 2) as Python rounds: half to even.
std::int64_t half_to_even(std::int64_t room) { return room / 2 + (room % 2) * (room / 2 % 2); }

// Reshapes one number per channel for broadcasting over an image.
Tensor per_channel(const std::vector<double>& numbers, const Tensor& image) {
  return tensor(numbers, {.dtype = image.dtype(), .device = image.device()}).view({-1, 1, 1});
}

}  // namespace

Tensor ToFloat::operator()(const Tensor& image) const {
  return image.dtype() == kUInt8 ? image.to(kFloat32) / 255 : image.to(kFloat32);
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> std) : mean_(std::move(mean)), std_(std::move(std)) {
  expect(!mean_.empty() && mean_.size() == std_.size(), "Normalize",
         "as many numbers in std as in mean, at least one, got ", std_.size(), " and ", mean_.size());
  for (const double number : std_) expect(number != 0, "Normalize", "numbers other than 0 in std, got 0");
}

Tensor Normalize::operator()(const Tensor& image) const {
  check_floating_image("Normalize", image);
  expect<ShapeError>(mean_.size() == 1 || std::int64_t(mean_.size()) == image.size(0), "Normalize", "an image of ",
                     mean_.size(), " channels, got ", image.sizes());
  return (image - per_channel(mean_, image)) / per_channel(std_, image);
}

RandomCrop::RandomCrop(std::array<std::int64_t, 2> size, const RandomCropOptions& options)
    : size_(size), options_(options) {
  check_size("RandomCrop", size);
  expect(options.padding >= 0, "RandomCrop", "padding >= 0, got ", options.padding);
}

Tensor RandomCrop::operator()(const Tensor& image) const {
  check_image("RandomCrop", image);
  const std::int64_t around = options_.padding;
  const Tensor padded = around > 0 ? pad(image, {around, around, around, around}, options_.fill) : image;
  const std::int64_t room_y = padded.size(1) - size_[0], room_x = padded.size(2) - size_[1];
  expect<ShapeError>(room_y >= 0 && room_x >= 0, "RandomCrop", "an image of at least ", size_[0], " by ", size_[1],
                     " with padding ", around, ", got ", image.sizes());
  const PhiloxBlock random = random_block();
  const auto y = std::int64_t(to_range(random.wide(0), std::uint64_t(room_y + 1)));
  const auto x = std::int64_t(to_range(random.wide(1), std::uint64_t(room_x + 1)));
  return padded.narrow(1, y, size_[0]).narrow(2, x, size_[1]);
}

CenterCrop::CenterCrop(std::array<std::int64_t, 2> size) : size_(size) { check_size("CenterCrop", size); }

Tensor CenterCrop::operator()(const Tensor& image) const {
  check_image("CenterCrop", image);
  const std::int64_t room_y = image.size(1) - size_[0], room_x = image.size(2) - size_[1];
  expect<ShapeError>(room_y >= 0 && room_x >= 0, "CenterCrop", "an image of at least ", size_[0], " by ", size_[1],
                     ", got ", image.sizes());
  return image.narrow(1, half_to_even(room_y), size_[0]).narrow(2, half_to_even(room_x), size_[1]);
}

Resize::Resize(std::array<std::int64_t, 2> size) : size_(size) { check_size("Resize", size); }

Tensor Resize::operator()(const Tensor& image) const {
  check_floating_image("Resize", image);
  return interpolate(image.unsqueeze(0), {.size = {size_[0], size_[1]}, .mode = Interpolation::bilinear}).select(0, 0);
}

RandomHorizontalFlip::RandomHorizontalFlip(double probability) : probability_(probability) {
  check_probability("RandomHorizontalFlip", probability);
}

Tensor RandomHorizontalFlip::operator()(const Tensor& image) const {
  check_image("RandomHorizontalFlip", image);
  return to_uniform(random_block().wide(0)) < probability_ ? flip(image, {2}) : image;
}

}  // namespace lockstep::data::transforms
