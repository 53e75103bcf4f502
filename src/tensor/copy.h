// Copies the values of tensors, with conversion and broadcasting, also between devices. Not recorded for backward.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct DeviceState;

/// to[...] = from[...], broadcast to to's shape and converted to its dtype, between any two devices.
/// Between two GPUs the copy runs on the source's current stream, after all work enqueued so far on the destination's
/// current stream and before all later work there. Throws ShapeError if `from` does not broadcast. Does not bump the
/// version.
void copy_values(const Tensor& to, const Tensor& from);

/// to[i] = from[i] for all i in one launch. All tensors are contiguous, on one device and of one dtype, and to[i] has
/// from[i]'s sizes. Does not bump versions.
void copy_together(std::span<const Tensor> to, std::span<const Tensor> from);

/// Sets every element to `value`. Does not bump the version.
void fill_values(const Tensor& tensor, double value);
/// Throws InvalidArgument naming `op` if `dtype` is an integer dtype and `value` is NaN or beyond its range.
void check_fits(const char* op, double value, DType dtype);

/// A contiguous copy of the values with that dtype on that device.
Tensor copied(const Tensor& from, DeviceState& device, DType dtype);

}  // namespace lockstep
