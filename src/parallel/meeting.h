// Where the replicas of one pass wait for each other on the host.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/parallel/replica_group.h>

namespace lockstep {

/// Thrown in replicas that wait for one that has ended: what follows from another's failure, not a cause.
class ReplicaLeft final : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
};

/// What a replica brings, and takes home.
struct Contribution {
  Tensor tensor = {};
  std::optional<Stream> stream = {};  ///< That the tensor is used on.
  std::int64_t number = 0;
};

class Meeting {
 public:
  Meeting(std::size_t replicas, std::shared_ptr<ReplicaGroup> group) : group_(std::move(group)), brought_(replicas) {}

  /// Returns when all replicas have come and the last one has run `job` over what each brought. A device thread that
  /// waits runs its queue, on which another replica's backward may depend. Throws what the job
  /// threw in the last one's thread; ReplicaLeft in the others', or when a replica has ended.
  void meet(const char* op, std::size_t replica, Contribution& mine,
            const std::function<void(std::span<Contribution* const>)>& job);
  /// The replica has ended.
  void leave(std::size_t replica) noexcept;

  std::size_t size() const noexcept { return brought_.size(); }
  const std::shared_ptr<ReplicaGroup>& group() const noexcept { return group_; }

 private:
  const std::shared_ptr<ReplicaGroup> group_;
  std::mutex mutex_;
  std::vector<Contribution*> brought_;
  std::size_t arrived_ = 0;
  std::size_t round_ = 0;
  std::optional<std::size_t> left_;  // the first that has ended: no more meetings
};

/// While it lives, this thread is a replica of a pass.
class MeetingGuard {
 public:
  MeetingGuard(Meeting& meeting, std::size_t replica) noexcept;
  ~MeetingGuard();
  MeetingGuard(const MeetingGuard&) = delete;
  MeetingGuard& operator=(const MeetingGuard&) = delete;

  Meeting& meeting;
  const std::size_t replica;

 private:
  const MeetingGuard* const outer_;
};

/// Null where there is no other replica to meet, such as in a job that this thread runs while its replica waits.
const MeetingGuard* current_meeting() noexcept;

}  // namespace lockstep
