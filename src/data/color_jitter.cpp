// Colour jitter, with the formulas of torchvision for float images.
#include <lockstep/data/augmentations.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/compare.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>

#include "data/transform_random.h"

namespace lockstep::data::transforms {
namespace {

Tensor grey(const Tensor& image) {
  if (image.size(0) == 1) return image;
  return 0.2989 * image.narrow(0, 0, 1) + 0.587 * image.narrow(0, 1, 1) + 0.114 * image.narrow(0, 2, 1);
}

Tensor blended(const Tensor& image, const Tensor& other, double factor) {
  return (factor * image + (1 - factor) * other).clamp(0, 1);
}

// The channel for n = 5, 3 or 1 (red, green, blue); the hue is in sixths of a circle. Smith 1978.
Tensor channel(double n, const Tensor& hue, const Tensor& chroma, const Tensor& value) {
  const Tensor k = (hue + n).remainder(6);
  return value - chroma * minimum(k, 4 - k).clamp(0, 1);
}

Tensor shifted_hue(const Tensor& image, double shift) {
  const Tensor r = image.select(0, 0), g = image.select(0, 1), b = image.select(0, 2);
  const Tensor value = maximum(maximum(r, g), b), chroma = value - minimum(minimum(r, g), b);
  const Tensor by = where(chroma > 0, chroma, ones_like(chroma));
  Tensor hue = where(value == r, (g - b) / by, where(value == g, 2 + (b - r) / by, 4 + (r - g) / by));
  hue = (hue + 6 * shift).remainder(6);
  return stack({channel(5, hue, chroma, value), channel(3, hue, chroma, value), channel(1, hue, chroma, value)});
}

}  // namespace

Range JitterRange::of_factor(const char* option) const {
  expect(range_ || about_ >= 0, "ColorJitter", option, " of at least 0, got ", about_);
  const Range range = range_.value_or(Range{std::max(0., 1 - about_), 1 + about_});
  expect(range[0] >= 0 && range[0] <= range[1] && std::isfinite(range[1]), "ColorJitter", option,
         " to be two bounds with 0 <= first <= second, got ", range[0], " to ", range[1]);
  return range;
}

Range JitterRange::of_hue() const {
  const Range range = range_.value_or(Range{-about_, about_});
  expect(range[0] >= -0.5 && range[0] <= range[1] && range[1] <= 0.5, "ColorJitter",
         "hue to be two bounds with -0.5 <= first <= second <= 0.5, got ", range[0], " to ", range[1]);
  return range;
}

ColorJitter::ColorJitter(const ColorJitterOptions& options)
    : brightness_(options.brightness.of_factor("brightness")),
      contrast_(options.contrast.of_factor("contrast")),
      saturation_(options.saturation.of_factor("saturation")),
      hue_(options.hue.of_hue()) {}

Tensor ColorJitter::operator()(const Tensor& image) const {
  check_floating_image("ColorJitter", image);
  expect<ShapeError>(image.size(0) == 1 || image.size(0) == 3, "ColorJitter", "an image of 1 or 3 channels, got ",
                     image.sizes());
  std::array<int, 4> order = {0, 1, 2, 3};
  for (std::size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[std::size_t(random_below(std::int64_t(i) + 1))]);
  const Range neutral = {1, 1}, still = {0, 0};
  Tensor result = image;
  for (const int step : order) {
    if (step == 0 && brightness_ != neutral)
      result = (result * random_between(brightness_[0], brightness_[1])).clamp(0, 1);
    if (step == 1 && contrast_ != neutral)
      result = blended(result, mean(grey(result)), random_between(contrast_[0], contrast_[1]));
    if (image.size(0) == 1) continue;
    if (step == 2 && saturation_ != neutral)
      result = blended(result, grey(result), random_between(saturation_[0], saturation_[1]));
    if (step == 3 && hue_ != still) result = shifted_hue(result, random_between(hue_[0], hue_[1]));
  }
  return result;
}

}  // namespace lockstep::data::transforms
