// Where numbers belong among sorted ones, and how many fall between bounds. Not differentiable. Throw ShapeError,
// DTypeError, DeviceMismatch.
#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct SearchSortedOptions {
  bool out_int32 = false;      ///< The result is int32, else int64.
  bool right = false;          ///< Behind equal elements, else before them.
  std::string_view side = {};  ///< "left" or "right": the same as `right`, in NumPy's words.
  Tensor sorter = {};          ///< int64, of the sequence's sizes: the places that put it in order, as argsort() gives.
};
/// How many elements of the sequence lie before each value: where it would be put to keep the order. The sequence is
/// sorted along its last dimension, which nothing checks. NaN belongs to its end. It is [n], for values of any shape,
/// or has the values' sizes but for the last. The result has the values' sizes. Dtypes promote. Throws InvalidArgument
/// for options that contradict each other.
LOCKSTEP_API Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values,
                                 const SearchSortedOptions& options = {});
LOCKSTEP_API Tensor searchsorted(const Tensor& sorted_sequence, double value, const SearchSortedOptions& options = {});

struct BucketizeOptions {
  bool out_int32 = false;  ///< The result is int32, else int64.
  bool right = false;      ///< A value on a boundary belongs to the bucket above it, else to the one below.
};
/// The bucket of each value: searchsorted(boundaries, x). boundaries: [n], in order.
LOCKSTEP_API Tensor bucketize(const Tensor& x, const Tensor& boundaries, const BucketizeOptions& options = {});
LOCKSTEP_API Tensor bucketize(double x, const Tensor& boundaries, const BucketizeOptions& options = {});

/// How many elements fall into each of `bins` equal parts of [min, max], the last of which includes max: [bins], of x's
/// dtype. Others are not counted. min = max: from x's least to its greatest, for which the host waits for the device.
/// Floating dtypes only. Throws InvalidArgument for less than one bin, min > max, and bounds that are not finite.
LOCKSTEP_API Tensor histc(const Tensor& x, std::int64_t bins = 100, double min = 0, double max = 0);

}  // namespace lockstep
