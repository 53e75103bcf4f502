#include "distributed/mpi/progress.h"

#include <unistd.h>

#include <exception>
#include <thread>

#include "core/text.h"
#include "distributed/mpi/termination.h"

namespace lockstep::mpi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// MPI has no blocking wait with a time limit, so this thread polls it. While messages move it does not sleep, because
// the next message of a pipeline follows soon. While callers wait, it sleeps for short times. While messages are
// pending but no caller waits, the process computes, so the sleeps are longer. Without messages it polls rarely.
constexpr microseconds kAwake(100), kShortSleep(20), kLongSleep(100), kUnawaitedSleep(500);
constexpr milliseconds kShortWait(2), kIdleSleep(5);
constexpr microseconds kPeerCheckInterval(200), kNeighborCheckInterval(5000);

// A peer that has waited for 1 / kPartOfLimit of the limit is not the cause of the hang.
constexpr int kPartOfLimit = 4;

// Launchers kill processes that have not ended a second after SIGTERM (Open MPI: odls_base_sigkill_timeout).
constexpr milliseconds kTimeToAnswer(300), kTimeToEnd(200);

}  // namespace

Progress::Progress(Communicators communicators, Datagrams& datagrams, const std::vector<Attributes>& by_rank, Job& job)
    : members_(job.members),
      handover_(job.handover),
      transfers_(communicators.messages, job.members),
      control_(communicators.notes, datagrams, job.members, job.limit),
      neighbors_(by_rank, job.members.rank),
      limit_(job.limit),
      last_move_(Clock::now()) {}

bool Progress::run() {
  while (!failure_) {
    try {
      step();
      if (leaves_ && control_.have_all_left()) {
        control_.close();
        return true;
      }
    } catch (const std::exception& error) {
      fail_without_mpi(text(members_.me(), ": ", error.what()));
    }
  }
  wait_to_leave();
  return false;
}

void Progress::step() {
  const Requests requests = handover_.take_requests();
  leaves_ = leaves_ || requests.leave;
  if (requests.fail) return fail(*requests.fail);
  if (requests.overdue) return fail(*requests.overdue);
  const auto now = Clock::now();
  if (!sigterm_at_ && Termination::is_requested()) {
    sigterm_at_ = now;
    control_.ping();
  }
  if (!control_.avoids_mpi()) move_messages(requests, now);
  if (transfers_.failure()) return fail(*transfers_.failure());
  if (now - last_peer_check_ >= kPeerCheckInterval) check_peers(now);
  if (!failure_) rest(now);
}

void Progress::move_messages(const Requests& requests, Clock::time_point now) {
  for (const std::shared_ptr<Transfer>& transfer : requests.transfers) transfers_.start(transfer);
  if (requests.leave) control_.say_left(transfers_);
  if (transfers_.advance(handover_) || !requests.transfers.empty()) last_move_ = now;
}

void Progress::check_peers(Clock::time_point now) {
  last_peer_check_ = now;
  handover_.seen(now);
  if (const std::optional<Failure> failure = control_.step(now, handover_.waits_for(now - limit_ / kPartOfLimit)))
    return fail(*failure);
  if (transfers_.any())
    for (int p = 0; p < members_.size(); ++p)
      if (control_.has_left(p) && transfers_.waits_in_vain_for(p, control_.last_counts(p)))
        return fail(Failure{p, text(members_.name(p), " has left the job")});
  check_neighbors(now);
  if (!failure_) check_termination(now);
}

void Progress::check_neighbors(Clock::time_point now) {
  if (now - last_neighbor_check_ < kNeighborCheckInterval) return;
  last_neighbor_check_ = now;
  for (const int process : neighbors_.ended()) {
    std::optional<Failure> failure;
    // The process may have left, or have told of a failure, before it ended: receives its last notes.
    for (int tries = 0; tries < 10 && !failure; ++tries) failure = control_.step(now, std::nullopt);
    if (!failure && control_.has_left(process)) continue;
    return fail(failure.value_or(
        Failure{process, text(members_.name(process), " is lost: it has ended, as ", members_.me(), " noticed")}));
  }
}

// After SIGTERM, which launchers send to every process when one is lost: the lost process is the one that does not
// answer the ping. If all answer, somebody else has sent SIGTERM, and this process is named as ended by it.
void Progress::check_termination(Clock::time_point now) {
  if (!sigterm_at_) return;
  const std::vector<int> unanswered = control_.unanswered();
  if (unanswered.empty()) return fail(Failure{members_.rank, text(members_.me(), " was ended by SIGTERM")});
  if (now - *sigterm_at_ > kTimeToAnswer)
    fail(Failure{unanswered.front(), text(members_.any_of(unanswered), " is lost: SIGTERM arrived in ", members_.me(),
                                          ", and all others answered it")});
}

void Progress::rest(Clock::time_point now) {
  const auto still = now - last_move_;
  if (!transfers_.any()) return handover_.rest(kIdleSleep);
  if (still < kAwake) return std::this_thread::yield();
  if (!handover_.is_awaited()) return handover_.rest(kUnawaitedSleep);
  handover_.rest(still < kShortWait ? kShortSleep : kLongSleep);
}

void Progress::fail(const Overdue& overdue) {
  const int process = control_.root_cause_of(overdue.process);
  const std::string not_reached =
      text(members_.name(overdue.process), " did not reach ", overdue.what, " within ", limit_.count(), " ms");
  if (process == overdue.process) return fail(Failure{process, not_reached});
  fail(Failure{process, text(members_.name(process), " is late: ", members_.name(overdue.process),
                             " waits for it, and so ", not_reached)});
}

void Progress::fail(const Failure& failure) {
  failure_ = failure;
  try {
    control_.say_failed(failure);
  } catch (const std::exception&) {  // the others will miss this process's signs of life
  }
  handover_.failed(failure);
}

// MPI has failed, usually because a peer is lost: the one that does not answer a ping. Returns nullopt if all answer.
std::optional<Failure> Progress::find_lost(const std::string& why) {
  control_.ping_without_mpi();
  for (const auto end = Clock::now() + kTimeToAnswer; !control_.unanswered().empty() && Clock::now() < end;) {
    std::this_thread::sleep_for(kPeerCheckInterval);
    if (std::optional<Failure> told = control_.step(Clock::now(), std::nullopt)) return told;
  }
  const std::vector<int> unanswered = control_.unanswered();
  if (unanswered.empty()) return std::nullopt;
  return Failure{unanswered.front(), text(members_.any_of(unanswered), " is lost: ", why, ", and all others answered")};
}

void Progress::fail_without_mpi(const std::string& why) { fail(find_lost(why).value_or(Failure{members_.rank, why})); }

// Waits until a caller leaves the job; it then reports the failure. If SIGTERM arrives and no caller leaves within
// kTimeToEnd, reports the failure here, and ends the process as SIGTERM does.
void Progress::wait_to_leave() {
  std::optional<Clock::time_point> end;
  handover_.seen(Clock::now());
  while (!leaves_) {
    leaves_ = handover_.take_requests().leave;
    if (!end && Termination::is_requested()) end = Clock::now() + kTimeToEnd;
    if (end && Clock::now() > *end) Termination::end(text(members_.me(), " ends: ", handover_.failure()->reason));
    handover_.rest(kIdleSleep);
  }
}

}  // namespace lockstep::mpi
