// Images of another size: x [N, C, spatial...] with one to three spatial dimensions, none of them empty.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/core/choice.h>
#include <lockstep/ops/per_dimension.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// What an element of the result is made of.
enum class Interpolation : std::uint8_t {
  nearest,        ///< The element at floor(place * scale).
  nearest_exact,  ///< The element whose middle is nearest.
  linear,         ///< Of neighbours: 2 in [N, C, L] ...
  bilinear,       ///< ... 4 in [N, C, H, W] ...
  trilinear,      ///< ... and 8 in [N, C, D, H, W].
  bicubic,        ///< 16 neighbours in [N, C, H, W], by Keys' convolution with a = -0.75.
  area,           ///< The mean of the window, as adaptive_avg_pool2d.
};

}  // namespace lockstep

template <>
struct lockstep::ChoiceNames<lockstep::Interpolation> {
  static constexpr const char* kOption = "mode";
  static constexpr std::string_view kNames[] = {"nearest",   "nearest-exact", "linear", "bilinear",
                                                "trilinear", "bicubic",       "area"};
};

namespace lockstep {

/// `2`, or one for each spatial dimension: `{2, 1.5}`.
class LOCKSTEP_API ScaleFactor {
 public:
  ScaleFactor(double all) : all_(all) {}
  ScaleFactor(std::initializer_list<double> each) : each_(each) {}
  ScaleFactor(std::vector<double> each) : each_(std::move(each)) {}

  /// Made of `{}`: no number at all.
  bool empty() const noexcept { return !all_ && each_.empty(); }

  /// One number for each of `dims` dimensions. Throws ShapeError naming `op` where another count was given, and
  /// InvalidArgument for a number that is not finite and above 0.
  std::vector<double> over(const char* op, int dims) const;

 private:
  std::optional<double> all_;
  std::vector<double> each_;
};

struct InterpolateOptions {
  PerDimension size = {};  ///< Of the result. Either this or scale_factor.
  /// The size is floor(scale_factor * size of x). Where that is x's size, nearest and linear modes copy the dimension;
  /// where it is twice x's, nearest takes each element twice.
  ScaleFactor scale_factor = {};
  Choice<Interpolation> mode = Interpolation::nearest;  ///< Between the pixels.
  /// The middles of the corner elements meet, not the corners of the image. Of linear and cubic modes.
  bool align_corners = false;
  /// Places are computed from the sizes, not from scale_factor, which may be less exact than these.
  bool recompute_scale_factor = false;
};

/// x: floating. The result has x's memory layout (row-major or channels-last). Differentiable, twice too, and the
/// gradient adds in a fixed order. PyTorch's semantics (without antialiasing). Throws ShapeError for sizes that do not
/// fit the mode and for an empty result, DTypeError, and InvalidArgument for options that exclude each other.
LOCKSTEP_API Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace lockstep
