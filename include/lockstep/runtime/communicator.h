// Communicator: collective operations of a group of devices, such as all-reduce. Make it once and keep it, because
// making one is slow.
//
// One thread uses a communicator at a time (any thread, but never two at once: that throws InvalidArgument); abort()
// may come from any thread. docs/collectives.md says how it works and why.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/core/dtype.h>
#include <lockstep/core/export.h>
#include <lockstep/distributed/world.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/stream.h>

namespace lockstep {

/// How a reduction combines the elements of the ranks, always in the order of the ranks. 16-bit floats accumulate in
/// float; integers wrap around, and have no mean; the sum of bools is a logical or. max and min propagate NaN. NCCL
/// guarantees only a part of this: docs/collectives.md.
enum class ReduceOp : std::uint8_t { sum, mean, max, min };

/// One rank's part of a collective: memory of its device, and the stream of its device that the operation runs on.
/// Pointers that the operation does not use, or that have no elements, may be null.
struct RankBuffers {
  Stream stream;               ///< A stream of the rank's device.
  const void* send = nullptr;  ///< The rank's input.
  void* receive = nullptr;     ///< The rank's output.
};

/// A message of `count` elements from one rank's memory to another's (or to its own).
struct Transfer {
  int from = 0;                ///< The rank that sends.
  int to = 0;                  ///< The rank that receives.
  const void* send = nullptr;  ///< Memory of `from`.
  void* receive = nullptr;     ///< Memory of `to`.
  std::size_t count = 0;       ///< Elements.
};

/// Options for NCCL. Other backends ignore them: their collectives occupy no multiprocessors that kernels could use,
/// and end as soon as the streams of all ranks reach them.
struct CommunicatorOptions {
  /// The maximum number of thread blocks (CTAs) of an operation on each GPU, up to 64; each occupies a multiprocessor.
  /// Fewer leave more multiprocessors to other kernels; more make a large operation faster. 0: NCCL chooses.
  int max_ctas = 0;
  /// The longest time of an operation, from when the streams of all ranks have reached it. A slower operation is
  /// aborted on all ranks with a CollectiveError. On CUDA a captured step counts as one operation. With several
  /// processes World::time_limit() is the limit.
  std::chrono::milliseconds time_limit = std::chrono::minutes(10);
};

/// A group of devices: rank r is devices()[r]. With several processes each passes its own devices; the devices of
/// process 0 are the first ranks, and rank first_rank() + r is devices()[r]. Each call is one operation of all ranks. A
/// process passes the buffers of its own ranks; roots, counts and transfers are those of all ranks. All processes make
/// the same calls in the same order. A call enqueues the operation on the ranks' streams and does not wait for it: on
/// each rank's stream it starts after the work enqueued before it, and ends before later work starts. Another rank's
/// part may end later, so use a rank's result on that rank's stream, or after an event of that stream.
///
/// A rank may receive in place: then receive == send, for reduce_scatter receive == send + the offset of the rank's
/// shard, for all_gather send == receive + that offset. Any other overlap of buffers throws InvalidArgument.
///
/// Wrong arguments throw InvalidArgument (DTypeError, DeviceMismatch) naming the rank, before anything is enqueued. A
/// later failure on one rank fails the operation on all: the host's next synchronization throws a CollectiveError with
/// the rank, the operation and its bytes, and with the original error attached. A moved-from communicator throws
/// InvalidArgument; its abort() does nothing.
class LOCKSTEP_API Communicator {
 public:
  /// Throws InvalidArgument if there is no device, a device appears twice or does not exist, or an option is out of
  /// range; DeviceMismatch if the devices are of different kinds; BackendError if a device was lost. In a world of
  /// several processes, all processes must construct their communicators in the same order; they wait for each other.
  explicit Communicator(std::vector<Device> devices, const World& world = {}, const CommunicatorOptions& options = {});
  ~Communicator();  ///< Enqueued operations still complete.
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;  ///< Destroys the communicator held before.

  int size() const;                            ///< The ranks of all processes.
  DeviceRank first_rank() const;               ///< The rank of this process's first device.
  const std::vector<Device>& devices() const;  ///< The devices of this process.

  /// receive[i] of every rank = the reduction of all ranks' send[i]; i < count.
  void all_reduce(std::span<const RankBuffers> ranks, std::size_t count, DType dtype, ReduceOp op = ReduceOp::sum);
  /// As all_reduce(), but only the root receives the result.
  void reduce(std::span<const RankBuffers> ranks, std::size_t count, DType dtype, int root,
              ReduceOp op = ReduceOp::sum);
  /// receive[i] of every rank = the root's send[i].
  void broadcast(std::span<const RankBuffers> ranks, std::size_t count, DType dtype, int root);
  /// Every rank sends counts[0] + counts[1] + ... elements; rank r receives the reduction of its shard of counts[r].
  void reduce_scatter(std::span<const RankBuffers> ranks, std::span<const std::size_t> counts, DType dtype,
                      ReduceOp op = ReduceOp::sum);
  /// Rank r sends counts[r] elements; every rank receives the elements of all ranks, concatenated in rank order.
  void all_gather(std::span<const RankBuffers> ranks, std::span<const std::size_t> counts, DType dtype);
  /// Sends messages between ranks, all at once. The memory that a transfer receives into must not overlap the memory of
  /// any other transfer.
  void send_receive(std::span<const Stream> streams, std::span<const Transfer> transfers, DType dtype);
  /// Orders all streams: later work on any of them starts after all work that was enqueued on any of them before.
  void barrier(std::span<const Stream> streams);

  /// Fails the pending operations with CollectiveError, on all ranks at once; later calls throw it. If devices share a
  /// card, their pending operations complete as usual. May be called from any thread. Does not wait, except some
  /// seconds for NCCL.
  void abort() noexcept;
  bool is_aborted() const;  ///< True after abort(), by a caller or after a failure.

 private:
  class State;
  State& state() const;
  std::shared_ptr<State> state_;  // shared with captured work that uses it
};

}  // namespace lockstep
