// ReplicaBarrier: the replicas of one pass wait on the host for each other, and exchange contributions. Safe from the
// threads of all replicas.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/parallel/replica_group.h>

#include "core/ranked_mutex.h"

namespace lockstep {

/// Thrown in replicas that wait for a replica that has ended. It is a consequence of that replica's failure, so
/// run_replicas() throws it only if there is no other error.
class PeerReplicaEnded final : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
};

/// A replica's input to a collective on the host, which replaces each field by its result.
struct Contribution {
  Tensor tensor = {};
  std::optional<Stream> stream = {};  ///< The stream that uses the tensor.
  std::int64_t number = 0;
};

class ReplicaBarrier {
 public:
  ReplicaBarrier(std::size_t replicas, std::shared_ptr<ReplicaGroup> group)
      : group_(std::move(group)), contributions_(replicas) {}

  /// Returns when all replicas have arrived and the last one has run `combine` over all contributions. A device thread
  /// that waits runs the jobs in its queue meanwhile, since another replica's backward may depend on them. If `combine`
  /// throws, the last replica throws its error and the others PeerReplicaEnded, as they do if a replica has ended.
  void arrive_and_wait(const char* op, std::size_t replica, Contribution& mine,
                       const std::function<void(std::span<Contribution* const>)>& combine);
  /// Call this when the replica has ended. The other replicas then stop waiting for it.
  void arrive_and_drop(std::size_t replica) noexcept;

  const std::shared_ptr<ReplicaGroup>& group() const noexcept { return group_; }

 private:
  const std::shared_ptr<ReplicaGroup> group_;
  RankedMutex<LockRank::replica_barrier> mutex_;
  std::vector<Contribution*> contributions_;
  std::size_t arrived_ = 0;
  std::size_t phase_ = 0;               // how often all replicas have arrived
  std::optional<std::size_t> dropped_;  // the first replica that has ended; later arrivals throw
};

}  // namespace lockstep
