// Digits are polylines in a box of height 2 and width about 1.3, centred at 0, with y downwards.
#include <lockstep/data/synthetic_digits.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <lockstep/data/datasets.h>
#include <lockstep/tensor/creation.h>

#include "core/expect.h"
#include "data/random_bits.h"

namespace lockstep::data {
namespace {

constexpr double kPi = 3.14159265358979323846;

struct Point {
  double x, y;
};
using Line = std::vector<Point>;
using Digit = std::vector<Line>;

// An arc of an ellipse between two angles, in turns; 0 points right and 0.25 down.
Line arc(Point middle, double radius_x, double radius_y, double from, double to) {
  constexpr int kSteps = 12;
  Line line;
  for (int i = 0; i <= kSteps; ++i) {
    const double angle = 2 * kPi * (from + (to - from) * i / kSteps);
    line.push_back({middle.x + radius_x * std::cos(angle), middle.y + radius_y * std::sin(angle)});
  }
  return line;
}

Line joined(Line line, const Line& rest) {
  line.insert(line.end(), rest.begin(), rest.end());
  return line;
}

const std::array<Digit, 10>& digits() {
  static const std::array<Digit, 10> all = {{
      {arc({0, 0}, 0.6, 1, 0, 1)},
      {{{-0.35, -0.65}, {0.05, -1}, {0.05, 1}}},
      {joined(arc({0, -0.45}, 0.58, 0.55, 0.5, 1.1), {{-0.6, 1}, {0.65, 1}})},
      {joined(arc({-0.05, -0.5}, 0.55, 0.5, 0.55, 1.25), arc({-0.05, 0.5}, 0.62, 0.5, 0.75, 1.45))},
      {{{0.25, -1}, {-0.65, 0.35}, {0.7, 0.35}}, {{0.35, -0.25}, {0.35, 1}}},
      {joined({{0.55, -1}, {-0.45, -1}, {-0.5, -0.1}}, arc({-0.02, 0.4}, 0.62, 0.6, 0.65, 1.42))},
      {joined({{0.35, -1}, {-0.2, -0.6}, {-0.55, 0.1}}, arc({0, 0.4}, 0.58, 0.6, 0.5, 1.5))},
      {{{-0.6, -1}, {0.6, -1}, {-0.1, 1}}},
      {arc({0, -0.5}, 0.48, 0.5, 0, 1), arc({0, 0.5}, 0.6, 0.5, 0, 1)},
      {arc({0, -0.42}, 0.56, 0.56, 0, 1), {{0.56, -0.42}, {0.5, 0.3}, {0.2, 1}}},
  }};
  return all;
}

double between(RandomBits& random, double low, double high) { return low + (high - low) * random.unit(); }

// Maps the box of a digit to pixels.
struct Placement {
  double xx, xy, yx, yy, x, y;

  Placement(RandomBits& random, double pixels) {
    const double turn = between(random, -0.2, 0.2), slant = between(random, -0.25, 0.25);
    const double height = between(random, 0.3, 0.38) * pixels, width = height * between(random, 0.8, 1.15);
    const double c = std::cos(turn), s = std::sin(turn);
    xx = c * width, xy = (c * slant - s) * height;
    yx = s * width, yy = (s * slant + c) * height;
    x = pixels * between(random, 0.44, 0.56), y = pixels * between(random, 0.44, 0.56);
  }
  Point operator()(const Point& p) const { return {xx * p.x + xy * p.y + x, yx * p.x + yy * p.y + y}; }
};

double distance(const Point& p, const Point& a, const Point& b) {
  const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  const double along = length > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.0, 1.0) : 0.0;
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

// Draws pixels up to half_width from the line; the edge fades over one pixel.
void stroke(std::span<float> image, std::int64_t side, const Point& a, const Point& b, double half_width) {
  const double reach = half_width + 0.5;
  const auto first = [&](double v) { return std::clamp<std::int64_t>(std::int64_t(std::floor(v - reach)), 0, side); };
  const auto last = [&](double v) { return std::clamp<std::int64_t>(std::int64_t(std::ceil(v + reach)), 0, side); };
  for (std::int64_t y = first(std::min(a.y, b.y)); y < last(std::max(a.y, b.y)); ++y)
    for (std::int64_t x = first(std::min(a.x, b.x)); x < last(std::max(a.x, b.x)); ++x) {
      const double cover = reach - distance({double(x) + 0.5, double(y) + 0.5}, a, b);
      float& pixel = image[std::size_t(y * side + x)];
      pixel = std::max(pixel, float(std::clamp(cover, 0.0, 1.0)));
    }
}

// The scaled sum of four uniform numbers: mean 0, variance 1, nearly normal.
double nearly_normal(RandomBits& random) {
  const std::uint64_t bits = random.below(std::uint64_t(1) << 63);
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += double((bits >> (15 * i)) & 0x7fff) + 0.5;
  return (sum / 32768 - 2) * std::sqrt(3.0);
}

}  // namespace

SyntheticDigits::SyntheticDigits(std::int64_t count, const SyntheticDigitsOptions& options)
    : count_(count), options_(options) {
  expect(count >= 0, "SyntheticDigits", "a count >= 0, got ", count);
  expect(options.image_size >= 8 && options.image_size <= 4096, "SyntheticDigits", "an image_size from 8 to 4096, got ",
         options.image_size);
  expect(options.noise >= 0 && std::isfinite(options.noise), "SyntheticDigits", "noise >= 0, got ", options.noise);
}

std::tuple<Tensor, std::int64_t> SyntheticDigits::get(std::int64_t index) const {
  detail::check_index("SyntheticDigits", index, count_);
  RandomBits random(mix(options_.seed, 0x6469676974), index);
  const std::int64_t side = options_.image_size;
  const auto digit = std::int64_t(random.below(10));
  const Tensor image = zeros({1, side, side});
  const std::span<float> pixels(image.data<float>(), std::size_t(side * side));

  const Placement placed(random, double(side));
  const double half_width = std::max(0.5, between(random, 0.03, 0.06) * double(side));
  for (const Line& line : digits()[std::size_t(digit)]) {
    std::vector<Point> points;
    for (const Point& p : line)
      points.push_back(placed({p.x + between(random, -0.05, 0.05), p.y + between(random, -0.05, 0.05)}));
    for (std::size_t i = 1; i < points.size(); ++i) stroke(pixels, side, points[i - 1], points[i], half_width);
  }
  if (options_.noise > 0)
    for (float& pixel : pixels)
      pixel = float(std::clamp(double(pixel) + options_.noise * nearly_normal(random), 0.0, 1.0));
  return {image, digit};
}

}  // namespace lockstep::data
