#include "backends/sim/sim_collective.h"

#include <lockstep/core/error.h>

#include <algorithm>
#include <new>
#include <utility>

#include "backends/sim/wait_awake.h"
#include "core/text.h"
#include "runtime/collectives/collective_call.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;

}  // namespace

SimCollective::SimCollective(const CollectiveCall& call, std::chrono::microseconds awake,
                             std::unique_ptr<host::ProcessCollective> processes)
    : name_(call.name),
      bytes_(bytes_of(call)),
      dtype_(call.dtype),
      op_(call.op),
      awake_(awake),
      processes_(std::move(processes)),
      here_(call.parts.size()),
      earlier_(call.parts.size()) {
  for (const CollectivePart& part : call.parts) {
    devices_.push_back(Device::cuda(part.stream.device).name());
    traced_.push_back(trace_of(call, traced_.size()));
  }
  if (processes_) {
    pieces_ = 1;
    return;
  }
  const std::size_t piece = kPieceBytes / size_of(dtype_);
  reductions_ = reductions_of(call);
  for (const RankReduction& reduction : reductions_) {
    first_piece_.push_back(pieces_);
    pieces_ += (reduction.count + piece - 1) / piece;
  }
}

std::shared_ptr<AsyncError> SimCollective::run(int rank, std::shared_ptr<AsyncError> earlier) {
  std::unique_lock lock(mutex_);
  here_[std::size_t(rank)] = true;
  earlier_[std::size_t(rank)] = earlier;
  if (phase_ == Phase::gathering && ++arrived_ == int(here_.size())) begin_work();
  bool takes_part = take_part();  // before the unlock: when all ranks are here, abort() needs one that ends the work
  lock.unlock();
  wait_while(Phase::gathering);
  if (!takes_part && phase_ == Phase::working) {
    lock.lock();
    takes_part = take_part();
    lock.unlock();
  }
  if (takes_part) {
    work();
    lock.lock();
    if (--working_ == 0) end_work();
    lock.unlock();
  }
  wait_while(Phase::working);  // afterwards only `earlier_` may change, so all else is read without the lock
  if (!earlier && has_no_memory_) throw std::bad_alloc();
  if (earlier) {
    lock.lock();  // after an abort, ranks may still arrive and set earlier_
    const std::vector<std::shared_ptr<AsyncError>> all = earlier_;
    lock.unlock();
    for (const std::shared_ptr<AsyncError>& other : all)
      if (other && other != earlier) earlier->join(other);
  }
  return earlier ? earlier : error_;
}

void SimCollective::wait_while(Phase phase) const {
  if (awake_.count() > 0 && wait_awake(awake_, [&] { return phase_ != phase; })) return;
  phase_.wait(phase);
}

// Call this with the lock held, in the last rank that arrives. This rank does the first piece, so the sleeping ranks
// are woken only if there are more pieces.
void SimCollective::begin_work() {
  if (!error_) error_ = told_error_of_ranks();
  if (error_ && processes_)
    processes_->fail(text("a device of ", processes_->process_name(), " failed before ", name_));
  if (error_ || pieces_ == 0) return end_work();
  phase_ = Phase::working;
  if (pieces_ > 1) phase_.notify_all();
}

// Call it with the lock held. Returns true if the rank has work to do.
bool SimCollective::take_part() {
  const bool some_is_left = phase_ == Phase::working && next_piece_ < pieces_;
  if (some_is_left) ++working_;
  return some_is_left;
}

void SimCollective::work() {
  if (processes_) {
    if (next_piece_.fetch_add(1, std::memory_order_relaxed) == 0) work_with_processes();
    return;
  }
  const std::size_t elements = kPieceBytes / size_of(dtype_);
  for (std::size_t piece; (piece = next_piece_.fetch_add(1, std::memory_order_relaxed)) < pieces_;) {
    const auto after = std::upper_bound(first_piece_.begin(), first_piece_.end(), piece);
    const auto which = std::size_t(after - first_piece_.begin()) - 1;
    const RankReduction& reduction = reductions_[which];
    const std::size_t begin = (piece - first_piece_[which]) * elements;
    host::reduce_ranks(reduction, dtype_, op_, begin, std::min(begin + elements, reduction.count));
  }
}

void SimCollective::work_with_processes() noexcept {
  std::shared_ptr<AsyncError> failure;
  bool no_memory = false;
  try {
    processes_->run();
  } catch (...) {
    try {
      failure = std::make_shared<AsyncError>(std::current_exception(), name_, devices_[0]);
    } catch (...) {
      no_memory = true;
    }
  }
  const std::scoped_lock lock(mutex_);
  if (!error_) error_ = failure;
  has_no_memory_ = has_no_memory_ || no_memory;
}

// Call it with the lock held.
void SimCollective::end_work() noexcept {
  phase_ = Phase::ended;
  phase_.notify_all();
}

void SimCollective::abort() noexcept {
  const std::scoped_lock lock(mutex_);
  if (phase_ == Phase::ended) return;
  next_piece_ = pieces_;
  if (processes_) processes_->fail("a communicator was aborted");
  const auto missing = std::find(here_.begin(), here_.end(), false);
  try {
    if (missing == here_.end())
      error_ = error(0, "the communicator was aborted");
    else
      error_ = error(int(missing - here_.begin()), "the communicator was aborted before this rank called it");
  } catch (...) {
    has_no_memory_ = true;
  }
  if (missing != here_.end()) end_work();  // if all are here, the last working rank ends it
}

std::shared_ptr<AsyncError> SimCollective::error(int rank, const std::string& reason, std::exception_ptr cause,
                                                 std::vector<std::shared_ptr<AsyncError>> causes) const {
  CollectiveError collective(rank, name_, bytes_, reason);
  if (cause) collective.attach(std::move(cause));
  return std::make_shared<AsyncError>(std::make_exception_ptr(collective), name_, devices_[std::size_t(rank)],
                                      std::move(causes));
}

// As error_of_ranks(), for a worker, which must not throw: without memory for a new error, returns the error of the
// first failed rank.
std::shared_ptr<AsyncError> SimCollective::told_error_of_ranks() const noexcept {
  try {
    return error_of_ranks();
  } catch (...) {
    return *std::ranges::find_if(earlier_, [](const auto& error) { return error != nullptr; });
  }
}

// Makes an error that names the first failed rank. The errors of all ranks are attached to it and reported with it.
std::shared_ptr<AsyncError> SimCollective::error_of_ranks() const {
  std::vector<std::shared_ptr<AsyncError>> causes;
  std::size_t failed = 0;
  for (std::size_t rank = 0; rank < earlier_.size(); ++rank) {
    if (!earlier_[rank] || std::find(causes.begin(), causes.end(), earlier_[rank]) != causes.end()) continue;
    if (causes.empty()) failed = rank;
    causes.push_back(earlier_[rank]);
  }
  if (causes.empty()) return nullptr;
  std::vector<std::exception_ptr> copies;
  for (const auto& cause : causes) copies.push_back(cause->copy());
  std::string before;
  try {
    std::rethrow_exception(copies[0]);
  } catch (const std::exception& e) {
    before = e.what();
  } catch (...) {
    before = "an exception of unknown type";
  }
  CollectiveError collective(int(failed), name_, bytes_, text(devices_[failed], " had failed before: ", before));
  for (std::exception_ptr& copy : copies) collective.attach(std::move(copy));
  const bool told = std::all_of(causes.begin(), causes.end(), [](const auto& cause) { return cause->is_cleared(); });
  if (told) causes.clear();  // already reported
  return std::make_shared<AsyncError>(std::make_exception_ptr(collective), name_, devices_[failed], std::move(causes));
}

std::shared_ptr<SimCollective> SimCommunicator::make(const CollectiveCall& call, std::chrono::microseconds awake) {
  std::unique_ptr<host::ProcessCollective> processes;
  if (peers_.transport) processes = std::make_unique<host::ProcessCollective>(call, peers_, sequence_++);
  return std::make_shared<SimCollective>(call, awake, std::move(processes));
}

void SimCommunicator::add(const std::shared_ptr<SimCollective>& collective, const CollectiveCall& call) {
  const std::scoped_lock lock(mutex_);
  if (aborted_) throw CollectiveError(0, call.name, bytes_of(call), "the communicator was aborted");
  if (pending_.size() >= tidy_at_) {
    std::erase_if(pending_, [](const std::weak_ptr<SimCollective>& each) { return each.expired(); });
    tidy_at_ = std::max<std::size_t>(64, 2 * pending_.size());
  }
  pending_.push_back(collective);
}

void SimCommunicator::abort() noexcept {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  for (const std::weak_ptr<SimCollective>& each : pending_)
    if (const std::shared_ptr<SimCollective> collective = each.lock()) collective->abort();
  pending_.clear();
}

}  // namespace lockstep::sim
