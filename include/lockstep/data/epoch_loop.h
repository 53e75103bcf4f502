// EpochLoop: one loop over the batches of an epoch, which makes them itself or has workers make them ahead.
// It belongs to the thread of the loop. When it goes, nothing of it runs any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/data/batch_source.h>
#include <lockstep/data/epoch_schedule.h>
#include <lockstep/data/prefetcher.h>
#include <lockstep/runtime/stream.h>

namespace lockstep::data {

/// Makes the first batch at once, so it may throw what making one throws.
template <class Source>
class EpochLoop {
 public:
  using Batch = BatchOf<Source>;

  EpochLoop(std::shared_ptr<const Source> source, std::shared_ptr<EpochSchedule> schedule)
      : source_(std::move(source)),
        schedule_(std::move(schedule)),
        plan_(schedule_->begin_epoch()),
        next_(plan_.first_batch()) {
    const LoaderOptions& options = schedule_->options();
    const std::int64_t left = plan_.batches() - next_;
    if (options.workers > 0 && left > 0) {
      const std::int64_t window = left / options.workers < options.prefetch ? left : options.workers * options.prefetch;
      slots_.resize(std::size_t(window));
      prefetcher_ = std::make_unique<Prefetcher>(
          PrefetchOptions{.workers = options.workers, .first = next_, .last = plan_.batches(), .window = window},
          [this](std::int64_t batch, const std::stop_token& stop) {
            const CurrentStreams::Guard streams(streams_);
            slot(batch) = make(batch, stop);
          });
    }
    produce();
  }

  /// Nothing at the end, and after an error.
  std::optional<Batch>& batch() noexcept { return batch_; }

  /// Goes on to the next batch; throws what making it throws.
  void advance() {
    if (!batch_) return;
    batch_.reset();
    produce();
  }

 private:
  void produce() {
    if (next_ == plan_.batches()) {
      schedule_->finish(plan_.loop());
      return;
    }
    if (prefetcher_) {
      try {
        take_prefetched();
      } catch (...) {
        batch_.reset();
        prefetcher_.reset();
        throw;
      }
    } else {
      batch_ = make(next_, std::stop_token());
    }
    schedule_->advance(plan_.loop(), ++next_);
  }

  void take_prefetched() {
    prefetcher_->wait();
    batch_ = std::exchange(slot(next_), std::nullopt);
    prefetcher_->taken();
  }

  std::optional<Batch> make(std::int64_t batch, const std::stop_token& stop) const {
    const GradMode mode(grad_enabled_);
    return source_->make(plan_, batch, stop);
  }

  std::optional<Batch>& slot(std::int64_t batch) { return slots_[std::size_t(batch) % slots_.size()]; }

  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<EpochSchedule> schedule_;
  const EpochPlan plan_;
  const bool grad_enabled_ = grad_enabled();
  const CurrentStreams streams_;  // which workers use too
  std::int64_t next_;
  std::optional<Batch> batch_;
  std::vector<std::optional<Batch>> slots_;
  std::unique_ptr<Prefetcher> prefetcher_;  // last: its tasks use the rest
};

}  // namespace lockstep::data
