#include <lockstep/data/prefetcher.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include <lockstep/core/timeout_error.h>

#include "core/ranked_mutex.h"
#include "core/text.h"
#include "data/task_queue.h"

namespace lockstep::data {

struct Prefetcher::State {
  using Clock = std::chrono::steady_clock;

  struct Slot {
    bool made = false;
    std::exception_ptr error;
    int worker = -1;  // the worker that makes the batch; -1: not begun
    Clock::time_point begun = {};
  };

  State(const PrefetchOptions& prefetch_options, Make make_batch)
      : options(prefetch_options),
        make(std::move(make_batch)),
        next(options.first),
        unstarted(options.first),
        slots(std::size_t(options.window)),
        queue(options.num_workers) {}

  const PrefetchOptions options;
  const Make make;
  std::int64_t next;       // the batch that the loop takes next
  std::int64_t unstarted;  // the first batch that was not submitted yet
  bool hangs = false;      // a worker did not make its batch in time
  std::stop_source stop;

  RankedMutex<LockRank::prefetcher> mutex;
  RankedCondition made;
  std::vector<Slot> slots;  // guarded by the mutex

  TaskQueue queue;  // the last member, so destroyed first: its tasks use the others

  Slot& slot(std::int64_t batch) { return slots[std::size_t(batch % options.window)]; }

  static void start_one(const std::shared_ptr<State>& state) {
    if (state->unstarted == state->options.last) return;
    state->queue.submit([state, batch = state->unstarted] { state->run(batch); });
    ++state->unstarted;
  }

  void run(std::int64_t batch) noexcept {
    {
      const std::lock_guard lock(mutex);
      slot(batch).worker = TaskQueue::worker();
      slot(batch).begun = Clock::now();
    }
    std::exception_ptr error;
    try {
      make(batch, stop.get_token());
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    slot(batch) = {.made = true, .error = std::move(error)};
    made.notify_one();
  }

  [[noreturn]] void throw_timeout(const Slot& late) const {
    const auto ms = [](Clock::duration time) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
    };
    const std::string expected =
        text("[DataLoader] expected batch ", next, " within ", options.timeout.count(), " ms, ");
    if (late.worker < 0) throw TimeoutError(expected + "got none: no worker has begun it");
    throw TimeoutError(text(expected, "got none: worker ", late.worker, " has been making it for ",
                            ms(Clock::now() - late.begun), " ms"));
  }
};

Prefetcher::Prefetcher(const PrefetchOptions& options, Make make)
    : state_(std::make_shared<State>(options, std::move(make))) {
  for (std::int64_t i = 0; i < options.window; ++i) State::start_one(state_);
}

// Cancels waiting tasks before it requests the stop: otherwise a worker that stops would begin another task.
Prefetcher::~Prefetcher() {
  state_->queue.cancel();
  state_->stop.request_stop();
  if (state_->hangs)
    state_->queue.abandon();
  else
    state_->queue.wait();
}

void Prefetcher::wait() {
  State::Slot& slot = state_->slot(state_->next);
  const auto is_made = [&] { return slot.made; };
  std::unique_lock lock(state_->mutex);
  // If this thread is itself a worker (its dataset uses another loader), it runs tasks until its batch is made: all
  // other workers may be waiting in the same way, and then no thread would make the batch.
  for (bool begun = !TaskQueue::on_worker(); !begun && !is_made(); lock.lock()) {
    lock.unlock();
    begun = !state_->queue.run_one();
  }
  if (state_->options.timeout.count() == 0) {
    state_->made.wait(lock, is_made);
  } else {
    const auto limit = std::min<std::chrono::milliseconds>(state_->options.timeout, std::chrono::hours(24 * 365));
    if (!state_->made.wait_until(lock, State::Clock::now() + limit, is_made)) {
      state_->hangs = true;
      state_->throw_timeout(slot);
    }
  }
  const std::exception_ptr error = std::exchange(slot, {}).error;
  lock.unlock();
  if (error) std::rethrow_exception(error);
}

bool Prefetcher::ready() const {
  const std::lock_guard lock(state_->mutex);
  return state_->next < state_->unstarted && state_->slot(state_->next).made;
}

bool Prefetcher::hangs() const noexcept { return state_->hangs; }

void Prefetcher::taken() {
  ++state_->next;
  State::start_one(state_);
}

}  // namespace lockstep::data
