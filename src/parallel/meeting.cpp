#include "parallel/meeting.h"

#include <utility>

#include "core/job_local.h"
#include "core/text.h"
#include "runtime/device_thread.h"

namespace lockstep {
namespace {

thread_local const MeetingGuard* innermost = nullptr;
const JobLocal innermost_is_of_the_job([]() -> void* { return &innermost; }, innermost);

}  // namespace

MeetingGuard::MeetingGuard(Meeting& where, std::size_t number) noexcept
    : meeting(where), replica(number), outer_(std::exchange(innermost, this)) {}
MeetingGuard::~MeetingGuard() {
  meeting.leave(replica);
  innermost = outer_;
}

const MeetingGuard* current_meeting() noexcept {
  return innermost && innermost->meeting.size() > 1 ? innermost : nullptr;
}

void Meeting::meet(const char* op, std::size_t replica, Contribution& mine,
                   const std::function<void(std::span<Contribution* const>)>& job) {
  std::unique_lock lock(mutex_);
  const auto refuse_if_left = [&] {
    if (!left_) return;
    throw ReplicaLeft(int(*left_), op, 0,
                      text("replica ", *left_, " ended without coming, replica ", replica, " waited for it"));
  };
  refuse_if_left();
  brought_[replica] = &mine;
  const std::size_t round = round_;
  const bool last = ++arrived_ == brought_.size();
  lock.unlock();
  if (!last) {
    DeviceThread::wait_until([&] {
      const std::scoped_lock again(mutex_);
      return round_ != round || left_;
    });
    lock.lock();
    if (round_ == round) refuse_if_left();
    return;
  }
  try {
    job(brought_);  // all others wait for it
  } catch (...) {
    leave(replica);
    throw;
  }
  lock.lock();
  arrived_ = 0;
  ++round_;
  lock.unlock();
  DeviceThread::notify();
}

void Meeting::leave(std::size_t replica) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (left_) return;
    left_ = replica;
  }
  DeviceThread::notify();
}

}  // namespace lockstep
