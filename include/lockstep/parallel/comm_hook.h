// A function that replaces the all-reduce of a bucket of gradients, to compress them or to sum in 16 bits. Like a hook
// of DistributedDataParallel's register_comm_hook in PyTorch, but it only enqueues its work and returns no future.
//
//   DataParallel model(Net{}, {.buckets = {.comm_hook = bfloat16_compress_hook}});
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {

/// The argument of a hook: one bucket whose gradients are to be summed. For the hook's thread only.
class LOCKSTEP_API ReducingBucket {
 public:
  /// buffers[d] is on the communicator's device d, and its work runs on streams[d].
  ReducingBucket(std::size_t index, std::span<const Tensor> buffers, std::span<const Stream> streams,
                 Communicator& communicator)
      : index_(index), buffers_(buffers), streams_(streams), communicator_(communicator) {}
  /// The bucket's place in the order in which buckets are summed, from 0. When the second backward that sums begins, it
  /// rebuilds the buckets, once. From then on the same index means a bucket of other parameters, usually of another
  /// size.
  std::size_t index() const noexcept { return index_; }

  /// The bucket on each device of this process: [elements], one dtype. When the hook is called, a buffer has the
  /// gradients of its device's replica, with zeros between them.
  std::span<const Tensor> buffers() const noexcept { return buffers_; }
  /// Calls f(buffer) for each buffer with the buffer's stream as the current one, and returns the results.
  std::vector<Tensor> each_buffer(const std::function<Tensor(const Tensor&)>& f) const;
  /// Copies values[d] into buffers()[d], converting the dtype.
  void set(std::span<const Tensor> values) const;
  /// Sums over all replicas of all processes, in place. tensors[d] is on the device of buffers()[d]; all have one shape
  /// and dtype. Throws as collective::all_reduce().
  void all_reduce(std::span<const Tensor> tensors) const;

 private:
  std::size_t index_;
  std::span<const Tensor> buffers_;
  std::span<const Stream> streams_;
  Communicator& communicator_;
};

/// The hook must leave in every buffer the sum over all replicas of all processes, with the same bits on every device;
/// with different bits the replicas drift apart. It is called for each bucket, in the same order in all processes, on a
/// thread of the model while backward runs; after no_sync() also at the first use of a gradient. Autograd does not
/// record its work. It must only enqueue work, and not wait for devices. If it throws, backward throws its error, the
/// other processes throw CollectiveError, and the values of the gradients are unspecified. Copies of the model share
/// the hook's state.
using CommHook = std::function<void(ReducingBucket&)>;

/// Sums float32 and float64 gradients in bfloat16: half of the bytes or less, and 8 bits of precision.
LOCKSTEP_API void bfloat16_compress_hook(ReducingBucket& bucket);

}  // namespace lockstep
