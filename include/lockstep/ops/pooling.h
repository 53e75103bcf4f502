// Pooling over windows of images: x is [N, C, spatial...] or [C, spatial...], with 1, 2 or 3 spatial dimensions as the
// name says, none of them empty. The result has x's memory layout (row-major or channels-last). Differentiable, twice
// too. PyTorch's semantics. Throw ShapeError for what does not fit, InvalidArgument for numbers out of range.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/ops/per_dimension.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct MaxPoolOptions {
  std::optional<PerDimension> stride = {};  ///< kernel_size where left out.
  PerDimension padding = 0;                 ///< On both sides, of nothing. At most half of kernel_size.
  PerDimension dilation = 1;
  bool ceil_mode = false;  ///< A window at the end may reach over it.
};
/// The greatest element of each window. NaN where a window has one. Any dtype but bool.
LOCKSTEP_API Tensor max_pool1d(const Tensor& x, const PerDimension& kernel_size, const MaxPoolOptions& options = {});
LOCKSTEP_API Tensor max_pool2d(const Tensor& x, const PerDimension& kernel_size, const MaxPoolOptions& options = {});
LOCKSTEP_API Tensor max_pool3d(const Tensor& x, const PerDimension& kernel_size, const MaxPoolOptions& options = {});
/// With the places of the greatest, int64: each in its image, row-major over the spatial dimensions of x. The first of
/// equal ones; -1 for a window (dilated, in padding) that covers nothing.
LOCKSTEP_API ValuesAndIndices max_pool1d_with_indices(const Tensor& x, const PerDimension& kernel_size,
                                                      const MaxPoolOptions& options = {});
LOCKSTEP_API ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const PerDimension& kernel_size,
                                                      const MaxPoolOptions& options = {});
LOCKSTEP_API ValuesAndIndices max_pool3d_with_indices(const Tensor& x, const PerDimension& kernel_size,
                                                      const MaxPoolOptions& options = {});

struct MaxUnpoolOptions {
  std::optional<PerDimension> stride = {};  ///< kernel_size where left out.
  PerDimension padding = 0;                 ///< Of the pooling.
  /// Of the spatial dimensions, each less than a stride from what kernel_size, stride and padding say, which it is
  /// where left out.
  std::optional<Shape> output_size = {};
};
/// Zeros, with x's elements at `indices`, as max pooling gave them; of equal places in an image the last. indices: x's
/// sizes, int64. Any dtype. Throws InvalidArgument for a place that is not there (on a GPU later, as
/// an error of its stream).
LOCKSTEP_API Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const PerDimension& kernel_size,
                                 const MaxUnpoolOptions& options = {});
LOCKSTEP_API Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const PerDimension& kernel_size,
                                 const MaxUnpoolOptions& options = {});
LOCKSTEP_API Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const PerDimension& kernel_size,
                                 const MaxUnpoolOptions& options = {});

struct AvgPoolOptions {
  std::optional<PerDimension> stride = {};            ///< kernel_size where left out.
  PerDimension padding = 0;                           ///< On both sides, of zeros. At most half of kernel_size.
  bool ceil_mode = false;                             ///< A window at the end may reach over it.
  bool count_include_pad = true;                      ///< Padding counts as elements.
  std::optional<std::int64_t> divisor_override = {};  ///< Instead of the number of elements. Not 0.
};
/// The mean of each window. Floating.
LOCKSTEP_API Tensor avg_pool1d(const Tensor& x, const PerDimension& kernel_size, const AvgPoolOptions& options = {});
LOCKSTEP_API Tensor avg_pool2d(const Tensor& x, const PerDimension& kernel_size, const AvgPoolOptions& options = {});
LOCKSTEP_API Tensor avg_pool3d(const Tensor& x, const PerDimension& kernel_size, const AvgPoolOptions& options = {});

/// Windows that divide x evenly into output_size of them, which may overlap by one. -1 keeps a size.
LOCKSTEP_API Tensor adaptive_avg_pool1d(const Tensor& x, const PerDimension& output_size);
LOCKSTEP_API Tensor adaptive_avg_pool2d(const Tensor& x, const PerDimension& output_size);
LOCKSTEP_API Tensor adaptive_avg_pool3d(const Tensor& x, const PerDimension& output_size);
LOCKSTEP_API Tensor adaptive_max_pool1d(const Tensor& x, const PerDimension& output_size);
LOCKSTEP_API Tensor adaptive_max_pool2d(const Tensor& x, const PerDimension& output_size);
LOCKSTEP_API Tensor adaptive_max_pool3d(const Tensor& x, const PerDimension& output_size);
LOCKSTEP_API ValuesAndIndices adaptive_max_pool1d_with_indices(const Tensor& x, const PerDimension& output_size);
LOCKSTEP_API ValuesAndIndices adaptive_max_pool2d_with_indices(const Tensor& x, const PerDimension& output_size);
LOCKSTEP_API ValuesAndIndices adaptive_max_pool3d_with_indices(const Tensor& x, const PerDimension& output_size);

struct LpPoolOptions {
  std::optional<PerDimension> stride = {};  ///< kernel_size where left out.
  bool ceil_mode = false;
};
/// (sum of x^norm_type)^(1 / norm_type) over each window. The gradient is 0 where the sum is 0. An infinite norm_type
/// is the greatest |x|, or the least. Floating.
LOCKSTEP_API Tensor lp_pool1d(const Tensor& x, double norm_type, const PerDimension& kernel_size,
                              const LpPoolOptions& options = {});
LOCKSTEP_API Tensor lp_pool2d(const Tensor& x, double norm_type, const PerDimension& kernel_size,
                              const LpPoolOptions& options = {});
LOCKSTEP_API Tensor lp_pool3d(const Tensor& x, double norm_type, const PerDimension& kernel_size,
                              const LpPoolOptions& options = {});

}  // namespace lockstep
