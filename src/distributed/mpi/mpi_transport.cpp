#include "distributed/mpi/mpi_transport.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::mpi {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(100);

[[noreturn]] void throw_ended(const Job& job, const Transfer& transfer, const char* what) {
  const std::optional<Failure> failure = job.handover.failure();
  const std::string operation = *what ? what : transfer.way == Transfer::Way::send ? "send" : "receive";
  if (!failure) throw CollectiveError(job.members.rank, operation, transfer.bytes, "this process has left the job");
  throw CollectiveError(failure->process, operation, transfer.bytes,
                        text(failure->reason, "; ", job.members.me(), " waited for ", job.members.name(transfer.peer),
                             " in ", operation));
}

std::atomic<bool> job_failed = false;

// If the job failed, gives the other processes time to report why, before this process ends. This process has usually
// reported it by now: programs do so after the World is destroyed, but before exit().
void at_exit() {
  if (job_failed) Termination::wait_for_peer_reports();
}

class MpiMessage final : public Message {
 public:
  MpiMessage(std::shared_ptr<Job> job, std::shared_ptr<Transfer> transfer)
      : job_(std::move(job)), transfer_(std::move(transfer)) {}
  ~MpiMessage() override {
    if (!transfer_->is_done) job_->handover.fail(Failure{job_->members.rank, abandoned()});
  }

  void wait(const char* what) override {
    if (job_->handover.wait_done(*transfer_, Clock::now() + job_->limit)) return;
    job_->handover.fail(Overdue{transfer_->peer, what});
    throw_ended(*job_, *transfer_, what);
  }
  const Transfer& transfer() const noexcept { return *transfer_; }

 private:
  std::string abandoned() const {
    const char* const way = transfer_->way == Transfer::Way::send ? " a message to " : " a message from ";
    return text(job_->members.me(), " abandoned", way, job_->members.name(transfer_->peer));
  }

  const std::shared_ptr<Job> job_;
  const std::shared_ptr<Transfer> transfer_;
};

}  // namespace

MpiTransport::MpiTransport(std::shared_ptr<Job> job, std::thread thread)
    : job_(std::move(job)), thread_(std::move(thread)), process_id_(::getpid()) {
  static const bool registered = std::atexit(at_exit) == 0;
  static_cast<void>(registered);
}

MpiTransport::~MpiTransport() {
  leave();
  if (::getpid() == process_id_ && !job_->handover.failure())  // after a failure the thread may stay in MPI forever
    thread_.join();
  else
    thread_.detach();
}

PendingMessage MpiTransport::send(int to, int channel, const void* data, std::size_t bytes) {
  return start(Transfer::Way::send, to, channel, const_cast<void*>(data), bytes);  // MPI does not change a sent message
}
PendingMessage MpiTransport::receive(int from, int channel, void* data, std::size_t bytes) {
  return start(Transfer::Way::receive, from, channel, data, bytes);
}

PendingMessage MpiTransport::start(Transfer::Way way, int peer, int channel, void* data, std::size_t bytes) {
  const auto transfer = std::make_shared<Transfer>(way, peer, channel, data, bytes);
  if (!job_->handover.submit(transfer)) throw_ended(*job_, *transfer, "");
  return std::make_unique<MpiMessage>(job_, transfer);
}

std::size_t MpiTransport::wait_any(std::span<const PendingMessage> messages, const char* what) {
  std::vector<const Transfer*> transfers;
  for (const PendingMessage& message : messages)
    transfers.push_back(message ? &static_cast<const MpiMessage&>(*message).transfer() : nullptr);
  if (const std::optional<std::size_t> done = job_->handover.wait_any(transfers)) return *done;
  throw_ended(*job_, **std::ranges::find_if(transfers, std::identity()), what);
}

void MpiTransport::fail(const std::string& reason) noexcept {
  job_->handover.fail(Failure{rank(), text(job_->members.me(), ": ", reason)});
}

std::optional<std::string> MpiTransport::failure() const {
  if (const std::optional<Failure> failure = job_->handover.failure()) return failure->reason;
  return std::nullopt;
}

void MpiTransport::leave() noexcept {
  if (::getpid() != process_id_ || left_.exchange(true)) return;
  Handover& handover = job_->handover;
  if (std::uncaught_exceptions() > 0) handover.fail(Failure{rank(), job_->members.me() + " was ended by an exception"});
  const bool had_failed = handover.failure().has_value();
  if (had_failed) job_failed = true;
  handover.leave();
  while (!handover.wait_ended(Clock::now() + kBetweenLooks)) {
    // MPI hangs, and the launcher will soon kill the process. Report now why the job ends: it was not reported yet.
    if (had_failed && Termination::is_requested())
      Termination::end(text(job_->members.me(), " ends: ", handover.failure()->reason));
    if (handover.last_seen() + job_->limit > Clock::now()) continue;
    const auto failure = handover.failure();
    std::fprintf(stderr, "[leave] %s ends without MPI_Finalize: MPI did not respond for %lld ms%s%s\n",
                 job_->members.me().c_str(), static_cast<long long>(job_->limit.count()), failure ? ": " : "",
                 failure ? failure->reason.c_str() : "");
    std::fflush(nullptr);
    Termination::wait_for_peer_reports();
    std::_Exit(EXIT_FAILURE);
  }
  if (const auto failure = handover.failure(); failure && !had_failed) {
    const std::string me =
        failure->process == rank() ? "others waited for it" : job_->members.me() + " left the job, too";
    std::fprintf(stderr, "[leave] %s; %s\n", failure->reason.c_str(), me.c_str());
  }
}

}  // namespace lockstep::mpi
