// Binary search in sorted sequences, and histograms. Not differentiable. Throw ShapeError, DTypeError, DeviceMismatch.
#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct SearchSortedOptions {
  bool out_int32 = false;      ///< If true, the result is int32, otherwise int64.
  bool right = false;          ///< True: inserts behind equal elements; false: before them.
  std::string_view side = {};  ///< NumPy's form of `right`: "left" for false, "right" for true.
  Tensor sorter = {};          ///< int64, the sequence's sizes: the indices that sort it, as from argsort().
};
/// The index at which to insert each value to keep the sequence sorted: the number of elements before it. The sequence
/// must be sorted along its last dimension, which is not checked. NaN sorts last. The sequence is [n], for values of
/// any shape, or has the values' sizes except for the last. The result has the values' sizes. Dtypes promote. Throws
/// InvalidArgument for options that contradict each other.
LOCKSTEP_API Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values,
                                 const SearchSortedOptions& options = {});
LOCKSTEP_API Tensor searchsorted(const Tensor& sorted_sequence, double value, const SearchSortedOptions& options = {});

struct BucketizeOptions {
  bool out_int32 = false;  ///< True: the result is int32; false: int64.
  bool right = false;      ///< True: a value on a boundary belongs to the bucket above; false: to the bucket below.
};
/// The bucket of each value: searchsorted(boundaries, x). boundaries: [n], sorted.
LOCKSTEP_API Tensor bucketize(const Tensor& x, const Tensor& boundaries, const BucketizeOptions& options = {});
LOCKSTEP_API Tensor bucketize(double x, const Tensor& boundaries, const BucketizeOptions& options = {});

/// The number of elements in each of `bins` equal parts of [min, max], the last of which includes max: [bins], of x's
/// dtype. Elements outside are not counted. If min = max, the range is from x's least to its greatest element, and the
/// host waits for the device. Floating dtypes only. Throws InvalidArgument for less than one bin, min > max, and bounds
/// that are not finite.
LOCKSTEP_API Tensor histc(const Tensor& x, std::int64_t bins = 100, double min = 0, double max = 0);

}  // namespace lockstep
