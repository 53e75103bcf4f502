// Pooling over windows of images: x is [N, C, spatial...] or [C, spatial...], with 1, 2 or 3 spatial dimensions as the
// name says, none of them empty. The result has x's memory layout (row-major or channels-last). Twice differentiable.
// PyTorch's semantics. Throw ShapeError for shapes that do not fit, InvalidArgument for numbers out of range.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/ops/per_dimension.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct MaxPoolOptions {
  std::optional<PerDimension> stride = {};  ///< Default: kernel_size.
  PerDimension padding = 0;                 ///< On both sides; at most half of kernel_size. Never the maximum.
  PerDimension dilation = 1;
  bool ceil_mode = false;  ///< The last window may extend past the end.
};
/// The maximum of each window, NaN if the window contains one. Any dtype but bool.
LOCKSTEP_API Tensor max_pool1d(const Tensor& x, const PerDimension& kernel_size, const MaxPoolOptions& options = {});
LOCKSTEP_API Tensor max_pool2d(const Tensor& x, const PerDimension& kernel_size, const MaxPoolOptions& options = {});
LOCKSTEP_API Tensor max_pool3d(const Tensor& x, const PerDimension& kernel_size, const MaxPoolOptions& options = {});
/// Also returns the indices of the maxima, int64: row-major over the spatial dimensions of x, in each image. If several
/// elements are equal, the index of the first; -1 for a (dilated) window that covers only padding.
LOCKSTEP_API ValuesAndIndices max_pool1d_with_indices(const Tensor& x, const PerDimension& kernel_size,
                                                      const MaxPoolOptions& options = {});
LOCKSTEP_API ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const PerDimension& kernel_size,
                                                      const MaxPoolOptions& options = {});
LOCKSTEP_API ValuesAndIndices max_pool3d_with_indices(const Tensor& x, const PerDimension& kernel_size,
                                                      const MaxPoolOptions& options = {});

struct MaxUnpoolOptions {
  std::optional<PerDimension> stride = {};  ///< Default: kernel_size.
  PerDimension padding = 0;                 ///< The padding of the pooling.
  /// The spatial sizes of the result. Default: the sizes that follow from kernel_size, stride and padding. Each size
  /// may differ from its default by less than a stride.
  std::optional<Shape> output_size = {};
};
/// Zeros, with x's elements at the `indices` of max pooling; if an index repeats within an image, the last one wins.
/// indices: x's sizes, int64. Any dtype. Throws InvalidArgument for an index out of range (on a GPU later, as an error
/// of its stream).
LOCKSTEP_API Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const PerDimension& kernel_size,
                                 const MaxUnpoolOptions& options = {});
LOCKSTEP_API Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const PerDimension& kernel_size,
                                 const MaxUnpoolOptions& options = {});
LOCKSTEP_API Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const PerDimension& kernel_size,
                                 const MaxUnpoolOptions& options = {});

struct AvgPoolOptions {
  std::optional<PerDimension> stride = {};            ///< Default: kernel_size.
  PerDimension padding = 0;                           ///< Zeros on both sides. At most half of kernel_size.
  bool ceil_mode = false;                             ///< The last window may extend past the end.
  bool count_include_pad = true;                      ///< The divisor counts padding.
  std::optional<std::int64_t> divisor_override = {};  ///< The divisor, instead of the number of elements; not 0.
};
/// The mean of each window. Floating dtypes.
LOCKSTEP_API Tensor avg_pool1d(const Tensor& x, const PerDimension& kernel_size, const AvgPoolOptions& options = {});
LOCKSTEP_API Tensor avg_pool2d(const Tensor& x, const PerDimension& kernel_size, const AvgPoolOptions& options = {});
LOCKSTEP_API Tensor avg_pool3d(const Tensor& x, const PerDimension& kernel_size, const AvgPoolOptions& options = {});

/// Divide x evenly into output_size windows, which may overlap by one element. -1 keeps x's size.
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
  std::optional<PerDimension> stride = {};  ///< Default: kernel_size.
  bool ceil_mode = false;
};
/// (sum of x^norm_type)^(1 / norm_type) over each window. The gradient is 0 where the sum is 0. norm_type infinity or
/// -infinity gives the greatest or the least |x|. Floating dtypes.
LOCKSTEP_API Tensor lp_pool1d(const Tensor& x, double norm_type, const PerDimension& kernel_size,
                              const LpPoolOptions& options = {});
LOCKSTEP_API Tensor lp_pool2d(const Tensor& x, double norm_type, const PerDimension& kernel_size,
                              const LpPoolOptions& options = {});
LOCKSTEP_API Tensor lp_pool3d(const Tensor& x, double norm_type, const PerDimension& kernel_size,
                              const LpPoolOptions& options = {});

}  // namespace lockstep
