// Collectives over tensors: a Communicator's operations with their shapes, dtypes and devices checked.
// As thread-safe as the communicator: one thread at a time.
#pragma once

#include <span>

#include <lockstep/core/export.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::collective {

// tensors[r] is rank r's tensor: contiguous, on the communicator's device r. Each of several processes passes only the
// tensors of its own ranks. The work is enqueued on streams[r], or on this thread's current streams if no streams are
// given; tensors of other streams are recorded there. Received tensors count as changed in place; no gradients flow.
//
// All throw, naming the rank: InvalidArgument for a wrong number of tensors or a tensor that is not contiguous,
// DeviceMismatch, DTypeError, ShapeError. Errors of the operation itself: see Communicator.

/// Every tensor becomes the reduction of all tensors, in place. All have one shape.
LOCKSTEP_API void all_reduce(Communicator& communicator, std::span<const Tensor> tensors, ReduceOp op = ReduceOp::sum,
                             std::span<const Stream> streams = {});
/// The root's tensor becomes the reduction of all tensors, in place; the others stay. All have one shape.
LOCKSTEP_API void reduce(Communicator& communicator, std::span<const Tensor> tensors, int root,
                         ReduceOp op = ReduceOp::sum, std::span<const Stream> streams = {});
/// Every tensor becomes equal to the root's. All have one shape.
LOCKSTEP_API void broadcast(Communicator& communicator, std::span<const Tensor> tensors, int root,
                            std::span<const Stream> streams = {});
/// outputs[r] becomes rank r's shard of the inputs' reduction. All inputs have one shape. Outputs may have any shapes
/// and different sizes, which add up to an input's size. outputs[r] may be a view of rank r's shard in inputs[r].
LOCKSTEP_API void reduce_scatter(Communicator& communicator, std::span<const Tensor> inputs,
                                 std::span<const Tensor> outputs, ReduceOp op = ReduceOp::sum,
                                 std::span<const Stream> streams = {});
/// Every output becomes the concatenation of all inputs: the counterpart of reduce_scatter.
LOCKSTEP_API void all_gather(Communicator& communicator, std::span<const Tensor> inputs,
                             std::span<const Tensor> outputs, std::span<const Stream> streams = {});

}  // namespace lockstep::collective
