// CudaCommunicator: a communicator's implementation by NCCL, or, for devices that share a card, by our own kernels.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "runtime/backend.h"

namespace lockstep::gpu {

class CudaCommunicator {
 public:
  virtual ~CudaCommunicator() = default;  ///< Enqueued operations still complete.
  /// Prepares the communicator; called once, before all other functions.
  virtual void start() {}
  /// Waits, up to the time limit, for the enqueued operations to end. Called before destruction, with no lock held.
  virtual void drain() noexcept {}

  /// One thread at a time. Throws CollectiveError if the call cannot be enqueued.
  virtual void enqueue(const CollectiveCall& call) = 0;
  /// Backend::watch_launch().
  virtual void watch_launch(StreamHandle, bool) {}
  /// Ends pending operations on all ranks, within some seconds. Any thread.
  virtual void abort() noexcept = 0;
  /// The number of failures so far. A failure destroys NCCL's ranks, so operations captured earlier cannot be replayed.
  virtual std::uint64_t failures() const noexcept { return 0; }
  /// Returns the error of an enqueued operation that failed or cannot end, once per error; else null. Polled while the
  /// host waits; any thread.
  virtual std::exception_ptr failure() noexcept = 0;
};

/// A rank: the user's number of its device, and CUDA's number of the device's card.
struct Member {
  int device;
  int card;
};

/// Uses NCCL, for ranks on different cards. If there are peers, their ranks are included; then all processes call this,
/// with no lock held, and wait for process 0's ncclUniqueId. start() tests that the cards can communicate. Both throw
/// CollectiveError, or BackendError if NCCL cannot be loaded or is too old.
std::unique_ptr<CudaCommunicator> make_nccl_communicator(std::vector<Member> members, const Peers& peers,
                                                         const CommunicatorOptions& options);

/// Uses our own kernels, for ranks that share a card, which NCCL refuses. If some ranks are on other cards, these cards
/// need peer access to the first rank's card. Sums in rank order, as the simulated devices do. Throws BackendError.
std::unique_ptr<CudaCommunicator> make_shared_card_communicator(std::vector<Member> members);

/// Later work on the first stream starts after all work that was enqueued on all streams before.
void join_streams(std::span<const CollectivePart> parts);
/// Later work on any stream starts after all work that was enqueued on the first stream before.
void fork_streams(std::span<const CollectivePart> parts);

}  // namespace lockstep::gpu
