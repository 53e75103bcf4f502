#include "distributed/mpi/progress.h"

#include <unistd.h>

#include <exception>
#include <thread>

#include "core/text.h"
#include "distributed/mpi/hooks.h"
#include "distributed/mpi/termination.h"

namespace lockstep::mpi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// MPI has no blocking wait with a limit, so it is polled: without sleeping while messages move, because the next
// message of a pipeline follows soon; with short sleeps while callers wait; with longer sleeps while messages are
// pending but nobody waits, because then the process computes; and rarely without messages.
constexpr microseconds kAwake(100), kShortSleep(20), kLongSleep(100), kUnawaitedSleep(500);
constexpr milliseconds kShortWait(2), kIdleSleep(5);
constexpr microseconds kBetweenPeers(200), kBetweenNeighbors(5000);

// A peer that has waited for 1 / kPartOfLimit of the limit is not the cause of the hang.
constexpr int kPartOfLimit = 4;

// Launchers kill processes that have not ended a second after SIGTERM (Open MPI: odls_base_sigkill_timeout).
constexpr milliseconds kTimeToAnswer(300), kTimeToEnd(200);

}  // namespace

Progress::Progress(Communicators communicators, Datagrams& datagrams, const std::vector<Facts>& by_rank, Job& job)
    : members_(job.members),
      handover_(job.handover),
      transfers_(communicators.messages, job.members),
      peers_(communicators.notes, datagrams, job.members, job.limit),
      neighbors_(by_rank, job.members.rank),
      limit_(job.limit),
      last_move_(Clock::now()) {}

bool Progress::run() {
  const Hooks hooks({.lost_connection = [this] { look_after_lost_connection(); }, .abort = [this] { stay_in_mpi(); }});
  while (!failure_) {
    try {
      step();
      if (leaves_ && peers_.have_all_left()) {
        peers_.close();
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
  const Orders orders = handover_.take();
  leaves_ = leaves_ || orders.leave;
  if (orders.fail) return fail(*orders.fail);
  if (orders.overdue) return fail(*orders.overdue);
  const auto now = Clock::now();
  if (!asked_ && Termination::is_asked()) {
    asked_ = now;
    peers_.ask();
  }
  if (!peers_.leaves_mpi_alone()) move_messages(orders, now);
  if (transfers_.failure()) return fail(*transfers_.failure());
  if (now - last_look_ >= kBetweenPeers) look_at_peers(now);
  if (!failure_) rest(now);
}

void Progress::move_messages(const Orders& orders, Clock::time_point now) {
  for (const std::shared_ptr<Transfer>& transfer : orders.transfers) transfers_.start(transfer);
  if (orders.leave) peers_.say_left(transfers_);
  if (transfers_.advance(handover_) || !orders.transfers.empty()) last_move_ = now;
}

void Progress::look_at_peers(Clock::time_point now) {
  last_look_ = now;
  handover_.seen(now);
  if (const std::optional<Failure> failure = peers_.step(now, handover_.waits_for(now - limit_ / kPartOfLimit)))
    return fail(*failure);
  if (transfers_.any())
    for (int p = 0; p < members_.size(); ++p)
      if (peers_.has_left(p) && transfers_.waits_in_vain_for(p, peers_.last_counts(p)))
        return fail(Failure{p, text(members_.name(p), " has left the job")});
  look_at_neighbors(now);
  if (!failure_) look_at_termination(now);
}

void Progress::look_at_neighbors(Clock::time_point now) {
  if (now - last_look_at_neighbors_ < kBetweenNeighbors) return;
  last_look_at_neighbors_ = now;
  for (const int process : neighbors_.ended()) {
    std::optional<Failure> failure;
    for (int tries = 0; tries < 10 && !failure; ++tries) failure = peers_.step(now, std::nullopt);  // its last notes
    if (!failure && peers_.has_left(process)) continue;
    return fail(failure.value_or(
        Failure{process, text(members_.name(process), " is lost: it has ended, as ", members_.me(), " noticed")}));
  }
}

// Every process gets SIGTERM. The lost one is the one that does not answer.
void Progress::look_at_termination(Clock::time_point now) {
  if (!asked_) return;
  const std::vector<int> silent = peers_.silent();
  if (silent.empty()) return fail(Failure{members_.rank, text(members_.me(), " was ended by SIGTERM")});
  if (now - *asked_ > kTimeToAnswer)
    fail(Failure{silent.front(), text(members_.name(silent.front()), " is lost: SIGTERM came to ", members_.me(),
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
  const auto late = [&](int process) { return text(members_.name(process), " did not come"); };
  const int process = peers_.to_blame_for(overdue.process);
  const std::string to_what = text(" to ", overdue.what, " within ", limit_.count(), " ms");
  if (process == overdue.process) return fail(Failure{process, late(process) + to_what});
  fail(Failure{process, text(late(process), ", and ", members_.name(overdue.process), " waits for it, and so ",
                             late(overdue.process), to_what)});
}

void Progress::fail(const Failure& failure) {
  failure_ = failure;
  try {
    peers_.say_failed(failure);
  } catch (const std::exception&) {  // the others will miss this process's signs of life
  }
  handover_.failed(failure);
}

// If MPI fails, usually a peer is lost: the one that does not answer.
std::optional<Failure> Progress::find_lost(const std::string& why) {
  peers_.ask_without_mpi();
  for (const auto end = Clock::now() + kTimeToAnswer; !peers_.silent().empty() && Clock::now() < end;) {
    std::this_thread::sleep_for(kBetweenPeers);
    if (std::optional<Failure> told = peers_.step(Clock::now(), std::nullopt)) return told;
  }
  const std::vector<int> silent = peers_.silent();
  if (silent.empty()) return std::nullopt;
  std::string names;
  for (const int process : silent) names += text(names.empty() ? "" : " or ", members_.name(process));
  return Failure{silent.front(), text(names, " is lost: ", why, ", and all others answered")};
}

void Progress::fail_without_mpi(const std::string& why) { fail(find_lost(why).value_or(Failure{members_.rank, why})); }

void Progress::look_after_lost_connection() noexcept {
  if (!failure_)
    if (const auto lost = find_lost(text("MPI lost its connection to ", members_.me()))) fail(*lost);
  if (failure_) stay_in_mpi();
  peers_.go_on_with_mpi();
}

// Called from within MPI, which holds its locks, or was about to end the process. So it never returns.
void Progress::stay_in_mpi() noexcept {
  if (!failure_) fail_without_mpi(text("MPI gave up in ", members_.me()));
  handover_.failed(*failure_);
  wait_to_leave();
  handover_.ended();
  for (;;) ::pause();
}

// The caller that leaves ends the process; without one, SIGTERM does.
void Progress::wait_to_leave() {
  std::optional<Clock::time_point> end;
  handover_.seen(Clock::now());
  while (!leaves_) {
    leaves_ = handover_.take().leave;
    if (!end && Termination::is_asked()) end = Clock::now() + kTimeToEnd;
    if (end && Clock::now() > *end) Termination::end(text(members_.me(), " ends: ", handover_.failure()->reason));
    handover_.rest(kIdleSleep);
  }
}

}  // namespace lockstep::mpi
