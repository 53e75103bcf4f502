// Communicator: what the devices of a group do together, such as summing gradients. Made once and kept.
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
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/runtime/world.h>

namespace lockstep {

/// How elements of the ranks become one: in the order of the ranks, whatever the timing. 16-bit floats accumulate in
/// float; integers wrap around, and have no mean; the sum of bools is their or. A NaN makes max and min NaN. NCCL does
/// not keep all of it: docs/collectives.md.
enum class ReduceOp : std::uint8_t { sum, mean, max, min };

/// One rank's part of a collective: memory of its device, and the stream of its device that the operation runs on.
/// What the operation does not use may be null, and so may memory of no elements.
struct RankBuffers {
  Stream stream;               ///< Of the rank's device.
  const void* send = nullptr;  ///< What the rank gives.
  void* receive = nullptr;     ///< Where the rank gets its result.
};

/// A message of `count` elements from one rank's memory to another's (or to its own).
struct Transfer {
  int from = 0;                ///< The rank that sends.
  int to = 0;                  ///< The rank that receives.
  const void* send = nullptr;  ///< Memory of `from`.
  void* receive = nullptr;     ///< Memory of `to`.
  std::size_t count = 0;       ///< Elements.
};

/// What NCCL is told. Other backends need neither: their operations take no blocks of a GPU's from compute beside them,
/// and end when their streams come to them.
struct CommunicatorOptions {
  /// How many blocks of threads an operation may have on each GPU, up to 64; each takes a multiprocessor. With fewer,
  /// more is left to compute that runs beside it; with more, a large operation is faster. 0: as NCCL chooses.
  int max_ctas = 0;
  /// How long an operation may take once the streams of all ranks have come to it: longer is a CollectiveError, which
  /// ends it on all ranks. With other processes the limit is World::time_limit().
  std::chrono::milliseconds time_limit = std::chrono::minutes(10);
};

/// A group of devices: rank r is devices()[r]; or, over several processes, first_rank() + r, for each process gives its
/// own devices, and those of process 0 are the first ranks. Each call is one operation of all ranks, to which a process
/// brings its own ones (roots, counts and transfers are of all ranks), and all processes make the same calls in the
/// same order. It is enqueued on the ranks' streams and not waited for: on each rank's stream it starts after what was
/// enqueued there before, and ends before what comes next. Another rank's part may end later: its result is used on its
/// own stream, or after an event.
///
/// A buffer may be sent and received in place: receive == send, for reduce_scatter receive == send + the rank's
/// offset, for all_gather send == receive + the rank's offset. Any other overlap throws InvalidArgument.
///
/// Wrong arguments throw InvalidArgument (DTypeError, DeviceMismatch) naming the rank, before anything is enqueued.
/// What goes wrong later on one rank fails the operation on all: a CollectiveError with the rank, the operation and its
/// bytes is thrown where the host synchronizes, with the error that caused it attached. One that was moved from throws
/// InvalidArgument; to abort() it does nothing.
class LOCKSTEP_API Communicator {
 public:
  /// Throws InvalidArgument for no device, a device twice, or one that is not there, DeviceMismatch for devices of
  /// different kinds, BackendError for one that was lost, and InvalidArgument for options that are out of range.
  /// With a world of several processes all of them make theirs, in the same order, and wait for each other.
  explicit Communicator(std::vector<Device> devices, const World& world = {}, const CommunicatorOptions& options = {});
  ~Communicator();  ///< What is enqueued still ends.
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;  ///< What this held is destroyed.

  int size() const;                            ///< Ranks, of all processes.
  DeviceRank first_rank() const;               ///< Of this process's devices.
  const std::vector<Device>& devices() const;  ///< Of this process.

  /// receive[i] of every rank = all ranks' send[i] reduced; i < count.
  void all_reduce(std::span<const RankBuffers> ranks, std::size_t count, DType dtype, ReduceOp op = ReduceOp::sum);
  /// The same, received by the root only.
  void reduce(std::span<const RankBuffers> ranks, std::size_t count, DType dtype, int root,
              ReduceOp op = ReduceOp::sum);
  /// receive[i] of every rank = the root's send[i].
  void broadcast(std::span<const RankBuffers> ranks, std::size_t count, DType dtype, int root);
  /// Every rank sends counts[0] + counts[1] + ... elements; rank r receives those of its shard, reduced.
  void reduce_scatter(std::span<const RankBuffers> ranks, std::span<const std::size_t> counts, DType dtype,
                      ReduceOp op = ReduceOp::sum);
  /// Rank r sends counts[r] elements; every rank receives all of them, one rank's after the other's.
  void all_gather(std::span<const RankBuffers> ranks, std::span<const std::size_t> counts, DType dtype);
  /// Messages between ranks, all at once. What one receives no other may touch.
  void send_receive(std::span<const Stream> streams, std::span<const Transfer> transfers, DType dtype);
  /// What comes next on any of the streams starts after what came before on all of them.
  void barrier(std::span<const Stream> streams);

  /// Ends what is pending with CollectiveError, on all ranks at once; later calls throw it. Where devices share a card,
  /// what is pending ends as usual. Any thread; does not wait, except for NCCL, for some seconds.
  void abort() noexcept;
  bool is_aborted() const;  ///< Whether abort() was called, here or by a failure.

 private:
  class State;
  State& state() const;
  std::shared_ptr<State> state_;  // with captured work that uses it
};

}  // namespace lockstep
