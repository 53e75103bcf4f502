#include "parallel/replica_barrier.h"

#include "core/text.h"
#include "runtime/device_thread.h"

namespace lockstep {

void ReplicaBarrier::arrive_and_wait(const char* op, std::size_t replica, Contribution& mine,
                                     const std::function<void(std::span<Contribution* const>)>& combine) {
  std::unique_lock lock(mutex_);
  const auto refuse_if_dropped = [&] {
    if (!dropped_) return;
    throw PeerReplicaEnded(int(*dropped_), op, 0,
                           text("replica ", *dropped_, " ended without calling ", op, ", in which replica ", replica,
                                " was waiting: every replica must call it equally often"));
  };
  refuse_if_dropped();
  contributions_[replica] = &mine;
  const std::size_t phase = phase_;
  const bool last = ++arrived_ == contributions_.size();
  lock.unlock();
  if (!last) {
    DeviceThread::wait_until([&] {
      const std::scoped_lock again(mutex_);
      return phase_ != phase || dropped_;
    });
    lock.lock();
    if (phase_ == phase) refuse_if_dropped();
    return;
  }
  try {
    combine(contributions_);  // without the lock: all other replicas are waiting
  } catch (...) {
    arrive_and_drop(replica);
    throw;
  }
  lock.lock();
  arrived_ = 0;
  ++phase_;
  lock.unlock();
  DeviceThread::notify();
}

void ReplicaBarrier::arrive_and_drop(std::size_t replica) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (dropped_) return;
    dropped_ = replica;
  }
  DeviceThread::notify();
}

}  // namespace lockstep
