// What stands behind a communicator: NCCL, or, where devices share a card, kernels of our own.
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
  virtual ~CudaCommunicator() = default;  ///< What is enqueued still ends.
  /// Makes it ready, once, before all that follows.
  virtual void start() {}
  /// Waits, with a limit, until what is enqueued has ended; before it is destroyed, holding no lock.
  virtual void drain() noexcept {}

  /// One thread at a time. Throws CollectiveError if it cannot be enqueued.
  virtual void enqueue(const CollectiveCall& call) = 0;
  /// Ends what is pending on all ranks, within some seconds. Any thread.
  virtual void abort() noexcept = 0;
  /// How often it has failed: after each, captured operations hold ranks that are no more.
  virtual std::uint64_t failures() const noexcept { return 0; }
  /// Why what was enqueued cannot end, or did not: once. Asked while the host waits; any thread.
  virtual std::exception_ptr failure() noexcept = 0;
};

/// A rank: a device as users count them, on a card as CUDA counts them.
struct Member {
  int device;
  int card;
};

/// The cards differ. With the ranks of other processes, if there are peers: all make theirs at once, holding no lock,
/// and wait for process 0's id. Its start tests that the cards can talk. Both throw CollectiveError, and BackendError
/// where NCCL cannot be loaded or is too old.
std::unique_ptr<CudaCommunicator> make_nccl_communicator(std::vector<Member> members, const Peers& peers,
                                                         const CommunicatorOptions& options);

/// For ranks on one card, which NCCL refuses; other cards among them must be able to reach its memory. Sums in the
/// order of the ranks, as the simulated devices do. Throws BackendError.
std::unique_ptr<CudaCommunicator> make_shared_card_communicator(std::vector<Member> members);

/// What comes next on the first stream starts after what came before on all...
void gather_streams(std::span<const CollectivePart> parts);
/// ... and what comes next on all after what came before on the first.
void release_streams(std::span<const CollectivePart> parts);

}  // namespace lockstep::gpu
