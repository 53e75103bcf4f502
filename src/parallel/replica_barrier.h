// Where the replicas of one pass wait for each other on the host. Safe from the threads of all replicas.
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

/// Thrown in replicas that wait for one that has ended: what follows from another's failure, not a cause.
class ReplicaLeft final : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
};

/// What a replica puts into a collective operation of the host's; the operation replaces each field by its result.
struct Contribution {
  Tensor tensor = {};
  std::optional<Stream> stream = {};  ///< That the tensor is used on.
  std::int64_t number = 0;
};

class ReplicaBarrier {
 public:
  ReplicaBarrier(std::size_t replicas, std::shared_ptr<ReplicaGroup> group)
      : group_(std::move(group)), contributions_(replicas) {}

  /// Returns when all replicas have arrived and the last one has run `combine` over what each contributes. A device
  /// thread that waits runs its queue, on which another replica's backward may depend. Throws what `combine` threw in
  /// the last one's thread; ReplicaLeft in the others', or when a replica has ended.
  void arrive_and_wait(const char* op, std::size_t replica, Contribution& mine,
                       const std::function<void(std::span<Contribution* const>)>& combine);
  /// The replica has ended: no other one waits for it.
  void arrive_and_drop(std::size_t replica) noexcept;

  const std::shared_ptr<ReplicaGroup>& group() const noexcept { return group_; }

 private:
  const std::shared_ptr<ReplicaGroup> group_;
  RankedMutex<LockRank::replica_barrier> mutex_;
  std::vector<Contribution*> contributions_;
  std::size_t arrived_ = 0;
  std::size_t phase_ = 0;               // how often all have arrived
  std::optional<std::size_t> dropped_;  // the first that has ended: nobody arrives any more
};

}  // namespace lockstep
