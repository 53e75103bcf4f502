#include "parallel/meeting.h"

#include <utility>

#include "core/text.h"

namespace lockstep {
namespace {

thread_local const MeetingGuard* innermost = nullptr;

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
  const auto throw_left = [&] {
    throw ReplicaLeft(int(*left_), op, 0,
                      text("replica ", *left_, " ended without coming, replica ", replica, " waited for it"));
  };
  std::unique_lock lock(mutex_);
  if (left_) throw_left();
  brought_[replica] = &mine;
  if (++arrived_ < brought_.size()) {
    const std::size_t round = round_;
    changed_.wait(lock, [&] { return round_ != round || left_; });
    if (round_ == round) throw_left();
    return;
  }
  try {
    job(brought_);
  } catch (...) {
    left_ = replica;
    changed_.notify_all();
    throw;
  }
  arrived_ = 0;
  ++round_;
  changed_.notify_all();
}

void Meeting::leave(std::size_t replica) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!left_) left_ = replica;
  changed_.notify_all();
}

}  // namespace lockstep
