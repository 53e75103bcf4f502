#include <lockstep/data/iterable_source.h>

#include <lockstep/core/error.h>

#include "core/ranked_mutex.h"
#include "core/text.h"

namespace lockstep::data {

struct ReadSequencer::State {
  mutable RankedMutex<LockRank::prefetcher> mutex;
  RankedCondition changed;
  std::int64_t next = 0;  // the batch whose turn it is to read
  std::int64_t last_rows = 0;
  std::int64_t full_rows = 0;
  bool ended = false;
};

ReadSequencer::ReadSequencer(std::int64_t first_batch) : state_(std::make_unique<State>()) {
  state_->next = first_batch;
}

ReadSequencer::~ReadSequencer() = default;

bool ReadSequencer::wait(std::int64_t batch, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const std::lock_guard lock(state_->mutex);
    state_->changed.notify_all();
  });
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->next == batch || state_->ended || stop.stop_requested(); });
  return !state_->ended && !stop.stop_requested();
}

void ReadSequencer::done(std::int64_t batch, std::int64_t rows, bool ended) {
  const std::lock_guard lock(state_->mutex);
  state_->next = batch + 1;
  state_->full_rows = std::max(state_->full_rows, rows);
  state_->last_rows = rows;
  state_->ended = ended;
  state_->changed.notify_all();
}

std::int64_t ReadSequencer::rows_in(std::int64_t batch) const {
  const std::lock_guard lock(state_->mutex);
  if (batch < 0 || batch >= state_->next)
    throw InvalidArgument(
        text("[DataLoader] rows_in(", batch, "): only ", state_->next, " batches, numbered from 0, were read so far"));
  return batch + 1 == state_->next && state_->ended ? state_->last_rows : state_->full_rows;
}

}  // namespace lockstep::data
