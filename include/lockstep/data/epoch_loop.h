// EpochLoop: one loop over the batches of an epoch. Makes the batches itself or has workers prefetch them, and copies
// them to a device if requested. Only the thread of the loop uses it. The destructor waits for all work, except for
// that of a worker that hangs (see Prefetcher).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/timeout_error.h>
#include <lockstep/data/batch_source.h>
#include <lockstep/data/batch_tensors.h>
#include <lockstep/data/device_copies.h>
#include <lockstep/data/epoch_schedule.h>
#include <lockstep/data/prefetcher.h>
#include <lockstep/runtime/stream.h>

namespace lockstep::data {

/// Makes batch `number` of an epoch, on any thread, by a source's make(). Returns nullopt at the end of the epoch.
template <class Batch>
using BatchMaker = std::function<std::optional<Batch>(const EpochPlan&, std::int64_t number, const MakeContext&)>;

/// The constructor makes the first batch, so it may throw the errors of the maker.
template <class Batch>
class EpochLoop {
 public:
  /// `copies`: null if batches are not copied to a device.
  EpochLoop(BatchMaker<Batch> maker, std::shared_ptr<EpochSchedule> schedule, std::shared_ptr<DeviceCopies> copies)
      : schedule_(std::move(schedule)),
        copies_(std::move(copies)),
        work_(std::make_shared<Work>(std::move(maker), schedule_->begin_epoch(), pins(schedule_->options()))),
        next_(work_->plan.first_batch()),
        delivered_(next_) {
    const LoaderOptions& options = schedule_->options();
    const std::int64_t left = work_->plan.batches() - next_;
    if (options.num_workers > 0 && left > 0) {
      const std::int64_t window =
          left / options.num_workers < options.prefetch_factor ? left : options.num_workers * options.prefetch_factor;
      work_->slots = std::vector<Slot>(std::size_t(window));
      prefetcher_ = std::make_unique<Prefetcher>(
          PrefetchOptions{.num_workers = options.num_workers,
                          .first = next_,
                          .last = work_->plan.batches(),
                          .window = window,
                          .timeout = options.timeout},
          [work = work_](std::int64_t batch, const std::stop_token& stop) { work->fill(batch, stop); });
    }
    produce();
  }

  /// The current batch; nullopt at the end, and after an error.
  std::optional<Batch>& batch() noexcept { return batch_; }

  /// Moves on to the next batch; throws the errors of making it.
  void advance() {
    if (!batch_) return;
    batch_.reset();
    produce();
  }

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::atomic<std::int64_t> sample = -1;  // the index of the sample being read for the batch; -1: none
  };

  // State shared with the workers that make batches. A worker that hangs keeps it alive after the loop has ended.
  struct Work {
    Work(BatchMaker<Batch> batch_maker, EpochPlan epoch, bool pins_batches)
        : maker(std::move(batch_maker)), plan(std::move(epoch)), pinned(pins_batches) {}

    std::optional<Batch> make(std::int64_t number, const MakeContext& context) const {
      const GradMode mode(grad_enabled);
      std::optional<Batch> batch = maker(plan, number, context);
      if (batch && pinned) detail::pin_tensors_of(*batch);
      return batch;
    }
    void fill(std::int64_t batch, const std::stop_token& stop) {
      const CurrentStreams::Guard guard(streams);
      Slot& place = slot(batch);
      place.batch = make(batch, {.stop = stop, .sample = &place.sample});
    }
    Slot& slot(std::int64_t batch) { return slots[std::size_t(batch) % slots.size()]; }

    const BatchMaker<Batch> maker;
    const EpochPlan plan;
    const bool pinned;
    const bool grad_enabled = lockstep::grad_enabled();
    const CurrentStreams streams;
    std::vector<Slot> slots;
  };

  static bool pins(const LoaderOptions& options) {
    return options.pin_memory.value_or(options.device && options.device->is_cuda());
  }

  // The next batch, whose copy to the device is enqueued.
  struct Ahead {
    std::optional<Batch> batch;
    std::optional<cuda::Event> sent;
    std::exception_ptr error;
  };

  void produce() {
    batch_ = copies_ ? next_on_device() : next();
    if (batch_)
      schedule_->advance(work_->plan.loop(), ++delivered_);
    else
      schedule_->finish(work_->plan.loop());
  }

  std::optional<Batch> next() {
    if (next_ == work_->plan.batches()) return std::nullopt;
    std::optional<Batch> batch;
    if (prefetcher_) {
      try {
        batch = take_prefetched();
      } catch (...) {
        prefetcher_.reset();
        throw;
      }
    } else {
      batch = work_->make(next_, {});
    }
    ++next_;
    return batch;
  }

  std::optional<Batch> next_on_device() {
    if (!ahead_) look_ahead();
    Ahead now = std::move(*ahead_);
    ahead_.reset();
    if (now.error) std::rethrow_exception(now.error);
    if (!now.batch) return std::nullopt;
    copies_->receive(*now.batch, now.sent);
    if (!prefetcher_ || prefetcher_->ready()) look_ahead();
    return std::move(now.batch);
  }

  // Gets the next batch and enqueues its copy. If this fails, next_on_device() throws the error when the batch is due.
  void look_ahead() {
    Ahead& ahead = ahead_.emplace();
    try {
      ahead.batch = next();
      if (ahead.batch) ahead.sent = copies_->send(*ahead.batch);
    } catch (...) {
      ahead.error = std::current_exception();
    }
  }

  std::optional<Batch> take_prefetched() {
    Slot& slot = work_->slot(next_);
    try {
      prefetcher_->wait();
    } catch (TimeoutError& error) {
      if (const std::int64_t sample = slot.sample; prefetcher_->hangs() && sample >= 0)
        error.add_context("in sample " + std::to_string(sample));
      throw;
    }
    std::optional<Batch> batch = std::exchange(slot.batch, std::nullopt);
    prefetcher_->taken();
    return batch;
  }

  const std::shared_ptr<EpochSchedule> schedule_;
  const std::shared_ptr<DeviceCopies> copies_;
  const std::shared_ptr<Work> work_;
  std::int64_t next_;       // the next batch to make or take
  std::int64_t delivered_;  // number of batches that the loop has got, or skipped after load_state()
  std::optional<Batch> batch_;
  std::optional<Ahead> ahead_;
  std::unique_ptr<Prefetcher> prefetcher_;  // the last member, so destroyed first: its tasks use the other members
};

}  // namespace lockstep::data
