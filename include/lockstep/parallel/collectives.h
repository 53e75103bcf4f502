// Collectives over tensors: a Communicator's operations with their shapes, dtypes and devices checked.
// As thread-safe as the communicator: one thread at a time.
#pragma once

#include <span>

#include <lockstep/core/export.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::collective {

// tensors[r] is the tensor of this process's rank r: contiguous, on communicator.devices()[r]. Each of several
// processes passes only the tensors of its own ranks. The work is enqueued on streams[r], or on this thread's current
// streams if no streams are given; each tensor is recorded on that stream (record_stream()). Received tensors count as
// changed in place. Autograd does not record these functions.
//
// All functions throw InvalidArgument for a wrong number of tensors or a tensor that is not contiguous, DeviceMismatch,
// DTypeError or ShapeError; the message names the rank. For errors of the operation itself, see Communicator.

/// Every tensor becomes the reduction of all tensors, in place. All tensors have the same shape.
LOCKSTEP_API void all_reduce(Communicator& communicator, std::span<const Tensor> tensors, ReduceOp op = ReduceOp::sum,
                             std::span<const Stream> streams = {});
/// The root's tensor becomes the reduction of all tensors, in place; the other tensors do not change. All tensors have
/// the same shape.
LOCKSTEP_API void reduce(Communicator& communicator, std::span<const Tensor> tensors, int root,
                         ReduceOp op = ReduceOp::sum, std::span<const Stream> streams = {});
/// Every tensor becomes equal to the root's tensor. All tensors have the same shape.
LOCKSTEP_API void broadcast(Communicator& communicator, std::span<const Tensor> tensors, int root,
                            std::span<const Stream> streams = {});
/// outputs[r] becomes rank r's shard of the inputs' reduction. All inputs have the same shape. Outputs may have any
/// shapes and different sizes; together they have as many elements as one input. outputs[r] may be a view of rank r's
/// shard in inputs[r].
LOCKSTEP_API void reduce_scatter(Communicator& communicator, std::span<const Tensor> inputs,
                                 std::span<const Tensor> outputs, ReduceOp op = ReduceOp::sum,
                                 std::span<const Stream> streams = {});
/// Every output becomes the concatenation of all inputs, as flat arrays in rank order. Inputs may have different sizes.
LOCKSTEP_API void all_gather(Communicator& communicator, std::span<const Tensor> inputs,
                             std::span<const Tensor> outputs, std::span<const Stream> streams = {});

}  // namespace lockstep::collective
