// Resizing of images: x [N, C, spatial...] with one to three spatial dimensions, none of them empty.
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

/// How an element of the result is computed.
enum class Interpolation : std::uint8_t {
  nearest,        ///< The element at floor(position * scale).
  nearest_exact,  ///< The element whose center is nearest.
  linear,         ///< From 2 neighbours, in [N, C, L].
  bilinear,       ///< From 4 neighbours, in [N, C, H, W].
  trilinear,      ///< From 8 neighbours, in [N, C, D, H, W].
  bicubic,        ///< From 16 neighbours, in [N, C, H, W], by Keys' convolution with a = -0.75.
  area,           ///< The mean of the window, as in adaptive_avg_pool2d.
};

}  // namespace lockstep

template <>
struct lockstep::ChoiceNames<lockstep::Interpolation> {
  static constexpr const char* kOption = "mode";
  static constexpr std::string_view kNames[] = {"nearest",   "nearest-exact", "linear", "bilinear",
                                                "trilinear", "bicubic",       "area"};
};

namespace lockstep {

/// A scale: `2`, or one for each spatial dimension: `{2, 1.5}`.
class LOCKSTEP_API ScaleFactor {
 public:
  ScaleFactor(double all) : all_(all) {}
  ScaleFactor(std::initializer_list<double> each) : each_(each) {}
  ScaleFactor(std::vector<double> each) : each_(std::move(each)) {}

  /// True if made from `{}`, without a number.
  bool empty() const noexcept { return !all_ && each_.empty(); }

  /// One number for each of `dims` dimensions. Throws ShapeError naming `op` for another count of numbers, and
  /// InvalidArgument for a number that is not finite and positive.
  std::vector<double> over(const char* op, int dims) const;

 private:
  std::optional<double> all_;
  std::vector<double> each_;
};

struct InterpolateOptions {
  PerDimension size = {};  ///< Spatial sizes of the result. Give either size or scale_factor.
  /// The size is floor(scale_factor * size of x). Along a dimension that keeps x's size, nearest and linear modes copy
  /// the elements; if the size doubles, nearest takes each element twice.
  ScaleFactor scale_factor = {};
  Choice<Interpolation> mode = Interpolation::nearest;  ///< How the values between pixels are computed.
  /// Aligns the centers of the corner elements of x and of the result; if false, aligns the corners of the images. Only
  /// for linear and cubic modes.
  bool align_corners = false;
  /// Computes positions from the sizes of x and the result, not from scale_factor. (The two differ if scale_factor *
  /// size is not a whole number.)
  bool recompute_scale_factor = false;
};

/// x: floating. The result has x's memory layout (row-major or channels-last). Twice differentiable; gradients are
/// summed in a fixed order. PyTorch's semantics (without antialiasing). Throws ShapeError for sizes that do not fit the
/// mode and for an empty result, DTypeError, and InvalidArgument for options that exclude each other.
LOCKSTEP_API Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace lockstep
