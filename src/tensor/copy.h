// Copies of values, below gradients: convert, broadcast, and cross devices.
#pragma once

#include <lockstep/tensor/tensor.h>

namespace lockstep {

struct DeviceState;

/// to[...] = from[...], broadcast to to's shape and converted to its dtype, between any two devices.
/// Between two GPUs the copy runs on the source's current stream, after what is enqueued on the destination's, and
/// before what comes there next. Throws ShapeError where from does not broadcast. Does not count as a change.
void copy_values(const Tensor& to, const Tensor& from);

/// Every element becomes `value`. Does not count as a change.
void fill_values(const Tensor& tensor, double value);

/// A contiguous copy of the values with that dtype on that device.
Tensor copied(const Tensor& from, DeviceState& device, DType dtype);

}  // namespace lockstep
