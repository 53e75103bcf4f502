// Collectives over tensors: a Communicator's operations with their shapes, dtypes and devices checked.
// As thread-safe as the communicator: one thread at a time.
#pragma once

#include <span>

#include <lockstep/core/export.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::collective {

// Rank r gives tensors[r], contiguous and on the communicator's device r; of several processes, each gives those of its
// own ranks. The work is enqueued on streams[r], or, when there are none, on this thread's current streams; another
// stream's tensors are recorded there. What is received counts as changed in place; gradients do not flow through.
//
// All throw what does not fit, naming the rank: InvalidArgument for the number of tensors or one that is not
// contiguous, DeviceMismatch, DTypeError, ShapeError. Errors of the operation itself: see Communicator.

/// Every tensor becomes the reduction of all, in place. One shape for all.
LOCKSTEP_API void all_reduce(Communicator& communicator, std::span<const Tensor> tensors, ReduceOp op = ReduceOp::sum,
                             std::span<const Stream> streams = {});
/// The root's tensor becomes the reduction of all, in place; the others stay. One shape for all.
LOCKSTEP_API void reduce(Communicator& communicator, std::span<const Tensor> tensors, int root,
                         ReduceOp op = ReduceOp::sum, std::span<const Stream> streams = {});
/// Every tensor becomes equal to the root's. One shape for all.
LOCKSTEP_API void broadcast(Communicator& communicator, std::span<const Tensor> tensors, int root,
                            std::span<const Stream> streams = {});
/// outputs[r] becomes rank r's shard of the inputs' reduction. One shape for all inputs; the outputs' shapes are free
/// and their sizes may differ, but add up to an input's. An output may be its place in its rank's input.
LOCKSTEP_API void reduce_scatter(Communicator& communicator, std::span<const Tensor> inputs,
                                 std::span<const Tensor> outputs, ReduceOp op = ReduceOp::sum,
                                 std::span<const Stream> streams = {});
/// Every output becomes the inputs, one after the other: the counterpart of reduce_scatter.
LOCKSTEP_API void all_gather(Communicator& communicator, std::span<const Tensor> inputs,
                             std::span<const Tensor> outputs, std::span<const Stream> streams = {});

}  // namespace lockstep::collective
