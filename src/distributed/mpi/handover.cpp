#include "distributed/mpi/handover.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::mpi {
namespace {

constexpr std::chrono::microseconds kSpin(20);  // about the cost of sleeping and waking up
constexpr std::chrono::seconds kLongestEnd(2);  // far longer than the MPI thread needs to report a failure

}  // namespace

bool Handover::submit(const std::shared_ptr<Transfer>& transfer) {
  const std::scoped_lock lock(mutex_);
  if (failure_ || ended_) return false;
  requests_.transfers.push_back(transfer);
  has_requests_ = true;
  to_do_.notify_one();
  return true;
}

bool Handover::wait_done(const Transfer& transfer, Clock::time_point end) {
  for (const auto spun = Clock::now() + kSpin; Clock::now() < spun; std::this_thread::yield())
    if (transfer.is_done) return true;
  std::unique_lock lock(mutex_);
  const auto wait = waits_.insert(waits_.end(), {transfer.peer, Clock::now()});
  if (++waiting_ == 1) {  // wakes the MPI thread: while nobody waits, it sleeps longer between two looks
    has_requests_ = true;
    to_do_.notify_one();
  }
  changed_.wait_until(lock, end, [&] { return transfer.is_done || failure_ || ended_; });
  --waiting_;
  waits_.erase(wait);
  return transfer.is_done;
}

// It is not among waits_: nobody is late.
std::optional<std::size_t> Handover::wait_any(std::span<const Transfer* const> transfers) {
  const auto is_done = [](const Transfer* transfer) { return transfer && transfer->is_done; };
  std::unique_lock lock(mutex_);
  ++waiting_;
  auto done = transfers.end();
  changed_.wait(lock, [&] {
    done = std::ranges::find_if(transfers, is_done);
    return done != transfers.end() || failure_ || ended_;
  });
  --waiting_;
  if (done == transfers.end()) return std::nullopt;
  return std::size_t(done - transfers.begin());
}

void Handover::fail(Failure failure) noexcept {
  std::unique_lock lock(mutex_);
  if (!requests_.fail) requests_.fail = failure;
  wait_for_failure(lock, failure);
}

void Handover::fail(Overdue overdue) noexcept {
  std::unique_lock lock(mutex_);
  if (!requests_.overdue) requests_.overdue = overdue;
  wait_for_failure(lock, {overdue.process, "MPI hangs"});
}

void Handover::wait_for_failure(std::unique_lock<Mutex>& lock, const Failure& otherwise) noexcept {
  if (failure_ || ended_) return;
  has_requests_ = true;
  to_do_.notify_one();
  ++waiting_;
  changed_.wait_until(lock, Clock::now() + kLongestEnd, [&] { return failure_ || ended_; });
  --waiting_;
  if (!failure_ && !ended_) failure_ = otherwise;
  changed_.notify_all();
}

std::optional<int> Handover::waits_for(Clock::time_point since) const {
  const std::scoped_lock lock(mutex_);  // the list is sorted by age
  return waits_.empty() || waits_.front().since > since ? std::nullopt : std::optional(waits_.front().peer);
}

std::optional<Failure> Handover::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void Handover::leave() noexcept {
  const std::scoped_lock lock(mutex_);
  requests_.leave = true;
  has_requests_ = true;
  to_do_.notify_one();
}

bool Handover::wait_ended(Clock::time_point end) noexcept {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.wait_until(lock, end, [&] { return ended_; });
  --waiting_;
  return ended_;
}

void Handover::rest(Clock::duration longest) {
  if (has_requests_) return;
  std::unique_lock lock(mutex_);
  to_do_.wait_until(lock, Clock::now() + longest, [&] { return has_requests_.load(); });
}

Requests Handover::take_requests() {
  if (!has_requests_) return {};
  const std::scoped_lock lock(mutex_);
  has_requests_ = false;
  return std::exchange(requests_, {});
}

void Handover::done(Transfer& transfer) noexcept {
  transfer.is_done = true;
  if (waiting_ > 0) wake_callers();
}

void Handover::failed(Failure failure) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  requests_.transfers.clear();
  changed_.notify_all();
}

void Handover::ended() noexcept {
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

// Takes the lock once before it notifies. A caller that has read is_done == false holds the lock until it sleeps, so
// the notification reaches it.
void Handover::wake_callers() noexcept {
  { const std::scoped_lock lock(mutex_); }
  changed_.notify_all();
}

}  // namespace lockstep::mpi
