#include <lockstep/data/prefetcher.h>

#include <exception>
#include <utility>
#include <vector>

#include "core/ranked_mutex.h"
#include "data/task_queue.h"

namespace lockstep::data {

struct Prefetcher::State {
  struct Slot {
    bool made = false;
    std::exception_ptr error;
  };

  State(const PrefetchOptions& prefetch_options, Make make_batch)
      : options(prefetch_options),
        make(std::move(make_batch)),
        next(options.first),
        unstarted(options.first),
        slots(std::size_t(options.window)),
        queue(options.workers) {}

  const PrefetchOptions options;
  const Make make;
  std::int64_t next;       // the batch that the loop takes next
  std::int64_t unstarted;  // the first one not given to the queue yet
  std::stop_source stop;

  RankedMutex<LockRank::prefetcher> mutex;
  RankedCondition made;
  std::vector<Slot> slots;  // under the mutex

  TaskQueue queue;  // last: its tasks use the rest

  Slot& slot(std::int64_t batch) { return slots[std::size_t(batch % options.window)]; }

  void start_one() {
    if (unstarted == options.last) return;
    queue.submit([this, batch = unstarted] { run(batch); });
    ++unstarted;
  }

  void run(std::int64_t batch) noexcept {
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
};

Prefetcher::Prefetcher(const PrefetchOptions& options, Make make)
    : state_(std::make_unique<State>(options, std::move(make))) {
  for (std::int64_t i = 0; i < options.window; ++i) state_->start_one();
}

// In this order: a worker that ends because of the stop must find nothing to begin.
Prefetcher::~Prefetcher() {
  state_->queue.cancel();
  state_->stop.request_stop();
}

void Prefetcher::wait() {
  State::Slot& slot = state_->slot(state_->next);
  const auto is_made = [&] { return slot.made; };
  std::unique_lock lock(state_->mutex);
  for (bool begun = !TaskQueue::on_worker(); !begun && !is_made(); lock.lock()) {  // a loader in a loader's dataset
    lock.unlock();
    begun = !state_->queue.run_one();
  }
  state_->made.wait(lock, is_made);
  const std::exception_ptr error = std::exchange(slot, {}).error;
  lock.unlock();
  if (error) std::rethrow_exception(error);
}

void Prefetcher::taken() {
  ++state_->next;
  state_->start_one();
}

}  // namespace lockstep::data
