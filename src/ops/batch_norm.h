// Functions that batch norm shares with instance norm and with SyncBatchNorm, whose statistics are those of all
// replicas.
#pragma once

#include <lockstep/ops/normalization.h>

#include "ops/images.h"

namespace lockstep {

/// Throws DTypeError, ShapeError or DeviceMismatch if an operand does not fit.
void check_batch_norm(const char* op, const Tensor& x, const Tensor& running_mean, const Tensor& running_variance,
                      const Tensor& weight, const Tensor& bias);
/// Throws ShapeError unless there is more than one element for each channel.
void check_batch_count(const char* op, const Tensor& x, std::int64_t count);

/// running = (1 - momentum) * running + momentum * factor * now, if it is defined.
void update_running(const Tensor& running, const Tensor& now, double factor, double momentum);

}  // namespace lockstep
