#include <lockstep/data/augmentations.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <lockstep/data/transforms.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/layout.h>
#include <lockstep/tensor/creation.h>

#include "data/transform_random.h"

namespace lockstep::data::transforms {
namespace {

void check_range(const char* op, const char* option, const Range& range) {
  expect(range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1]), op, option,
         " to be two bounds with 0 < first <= second, got ", range[0], " to ", range[1]);
}

struct Window {
  std::int64_t y = 0, x = 0, height = 0, width = 0;
};

// Returns the height and width of a random rectangle: its area is a fraction of `area` from the range `scale`, its
// ratio height / width is log-uniform in the range `tall`.
std::array<double, 2> random_sides(double area, const Range& scale, const Range& tall) {
  const double part = area * random_between(scale[0], scale[1]);
  const double ratio = std::exp(random_between(std::log(tall[0]), std::log(tall[1])));
  return {std::nearbyint(std::sqrt(part * ratio)), std::nearbyint(std::sqrt(part / ratio))};
}

Window random_window(const Tensor& image, const RandomResizedCropOptions& o) {
  const std::int64_t height = image.size(1), width = image.size(2);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto [w, h] = random_sides(double(height * width), o.scale, o.ratio);
    if (!(w >= 1 && w <= double(width) && h >= 1 && h <= double(height))) continue;
    const auto rows = std::int64_t(h), columns = std::int64_t(w);
    const std::int64_t y = random_below(height - rows + 1);
    return {y, random_below(width - columns + 1), rows, columns};
  }
  const double ratio = double(width) / double(height);
  Window middle{0, 0, height, width};
  if (ratio < o.ratio[0]) middle.height = std::int64_t(std::nearbyint(double(width) / o.ratio[0]));
  if (ratio > o.ratio[1]) middle.width = std::int64_t(std::nearbyint(double(height) * o.ratio[1]));
  middle.height = std::clamp<std::int64_t>(middle.height, 1, height);
  middle.width = std::clamp<std::int64_t>(middle.width, 1, width);
  middle.y = (height - middle.height) / 2;
  middle.x = (width - middle.width) / 2;
  return middle;
}

// For each pixel of a rotated image, a source pixel and its weight; the weight is 0 outside the image.
struct Sources {
  std::vector<std::int64_t> places;
  std::vector<double> shares;
};

class Rotation {
 public:
  Rotation(const Tensor& image, double degrees)
      : height_(image.size(1)),
        width_(image.size(2)),
        cosine_(std::cos(degrees * std::numbers::pi / 180)),
        sine_(std::sin(degrees * std::numbers::pi / 180)) {}

  Sources nearest() const {
    Sources all;
    each([&](double y, double x) { add(all, std::nearbyint(y), std::nearbyint(x), 1); });
    return all;
  }
  /// For each pixel, one of the four pixels around its source place, with its bilinear weight: `below` and `right`, 0
  /// or 1, select the pixel.
  Sources neighbour(int below, int right) const {
    Sources all;
    each([&](double y, double x) {
      const double top = std::floor(y), left = std::floor(x), down = y - top, along = x - left;
      add(all, top + below, left + right, (below ? down : 1 - down) * (right ? along : 1 - along));
    });
    return all;
  }

 private:
  template <class Visit>
  void each(const Visit& visit) const {
    const double middle_y = double(height_ - 1) / 2, middle_x = double(width_ - 1) / 2;
    for (std::int64_t row = 0; row < height_; ++row)
      for (std::int64_t column = 0; column < width_; ++column) {
        const double y = double(row) - middle_y, x = double(column) - middle_x;
        visit(rounded(sine_ * x + cosine_ * y + middle_y), rounded(cosine_ * x - sine_ * y + middle_x));
      }
  }
  // Snaps to a whole pixel after quarter turns, whose sines are not exact.
  static double rounded(double place) {
    const double whole = std::nearbyint(place);
    return std::abs(place - whole) < 1e-9 ? whole : place;
  }
  void add(Sources& all, double y, double x, double share) const {
    const bool inside = y >= 0 && y < double(height_) && x >= 0 && x < double(width_);
    all.places.push_back(inside ? std::int64_t(y) * width_ + std::int64_t(x) : 0);
    all.shares.push_back(inside ? share : 0);
  }

  std::int64_t height_, width_;
  double cosine_, sine_;
};

// Picks the source pixels of an image [channels, pixels].
Tensor taken(const Tensor& flat, const Sources& sources) {
  return flat.index_select(1, tensor(sources.places, {.dtype = kInt64, .device = flat.device()}));
}

}  // namespace

RandomVerticalFlip::RandomVerticalFlip(double p) : p_(p) { check_probability("RandomVerticalFlip", p); }

Tensor RandomVerticalFlip::operator()(const Tensor& image) const {
  check_image("RandomVerticalFlip", image);
  return random_between(0, 1) < p_ ? flip(image, {1}) : image;
}

RandomRotation::RandomRotation(double degrees, const RandomRotationOptions& options)
    : RandomRotation(Range{-degrees, degrees}, options) {}
RandomRotation::RandomRotation(Range degrees, const RandomRotationOptions& options)
    : degrees_(degrees), options_(options) {
  expect(degrees[0] <= degrees[1], "RandomRotation", "degrees to be two bounds with first <= second, got ", degrees[0],
         " to ", degrees[1]);
  expect(options.interpolation == Interpolation::nearest || options.interpolation == Interpolation::bilinear,
         "RandomRotation", "the interpolation \"nearest\" or \"bilinear\", got another one");
}

Tensor RandomRotation::operator()(const Tensor& image) const {
  const bool linear = options_.interpolation == Interpolation::bilinear;
  if (linear)
    check_floating_image("RandomRotation", image);
  else
    check_image("RandomRotation", image);
  const Rotation rotation(image, random_between(degrees_[0], degrees_[1]));
  const Tensor flat = image.reshape({image.size(0), image.size(1) * image.size(2)});
  if (!linear) {
    const Sources sources = rotation.nearest();
    const Tensor inside = tensor(sources.shares, {.dtype = kFloat64, .device = image.device()}) > 0;
    return where(inside, taken(flat, sources), full_like(flat, options_.fill)).view(image.sizes());
  }
  Tensor turned = zeros_like(flat), covered = zeros({flat.size(1)}, {.dtype = flat.dtype(), .device = flat.device()});
  for (const int below : {0, 1})
    for (const int right : {0, 1}) {
      const Sources sources = rotation.neighbour(below, right);
      const Tensor shares = tensor(sources.shares, {.dtype = flat.dtype(), .device = flat.device()});
      turned = turned + taken(flat, sources) * shares;
      covered = covered + shares;
    }
  return (turned + options_.fill * (1 - covered)).view(image.sizes());
}

RandomResizedCrop::RandomResizedCrop(std::array<std::int64_t, 2> size, const RandomResizedCropOptions& options)
    : size_(size), options_(options) {
  check_size("RandomResizedCrop", size);
  check_range("RandomResizedCrop", "scale", options.scale);
  check_range("RandomResizedCrop", "ratio", options.ratio);
}

Tensor RandomResizedCrop::operator()(const Tensor& image) const {
  check_floating_image("RandomResizedCrop", image);
  const Window window = random_window(image, options_);
  return Resize(size_)(image.narrow(1, window.y, window.height).narrow(2, window.x, window.width));
}

RandomErasing::RandomErasing(const RandomErasingOptions& options) : options_(options) {
  check_probability("RandomErasing", options.p);
  check_range("RandomErasing", "scale", options.scale);
  check_range("RandomErasing", "ratio", options.ratio);
}

Tensor RandomErasing::operator()(const Tensor& image) const {
  check_image("RandomErasing", image);
  if (random_between(0, 1) >= options_.p) return image;
  const std::int64_t height = image.size(1), width = image.size(2);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto [h, w] = random_sides(double(height * width), options_.scale, options_.ratio);
    if (!(h < double(height) && w < double(width))) continue;
    const auto rows = std::int64_t(h), columns = std::int64_t(w);
    const std::int64_t y = random_below(height - rows + 1), x = random_below(width - columns + 1);
    Tensor erased = image.clone();
    erased.narrow(1, y, rows).narrow(2, x, columns).fill_(options_.value);
    return erased;
  }
  return image;
}

}  // namespace lockstep::data::transforms
