// DataLoader: the batches of a dataset, epoch after epoch.
//
//   data::DataLoader loader(RandomDataset(5, 100), {.batch_size = 30, .shuffle = true});
//   for (const Tensor& batch : loader) ...
//
// A loader and its iterators belong to one thread at a time. With workers, the dataset's get() and the collation run
// on other threads, several at once; batches, their order and the random numbers drawn for them are the same for any
// number of workers. Both throw InvalidArgument once they were moved from.
//
// With options.share the loaders of several processes make one loader's batches together: each process gets its rows of
// every batch, and all have the same number of batches. All of it follows from the seed and the whole batch, so the
// rows are those of one process with a share of all, random numbers of get() included. Two differences: a collation
// sees its process's rows only (the numbers that it draws are the same in every process), and a process without rows in
// a small last batch gets a batch whose tensors have 0 rows along dimension 0 (its other parts are those of one
// sample).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <ranges>
#include <utility>

#include <lockstep/core/moved_from.h>
#include <lockstep/data/batch_source.h>
#include <lockstep/data/collate.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/epoch_loop.h>
#include <lockstep/data/epoch_schedule.h>
#include <lockstep/data/loader_options.h>
#include <lockstep/data/sampler.h>

namespace lockstep::data {

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_at_end();
[[noreturn]] LOCKSTEP_API void throw_no_such_batch(std::int64_t batch, std::int64_t batches);
}  // namespace detail

/// The batches of a dataset: see the description of the file.
template <Dataset D, class Collate = DefaultCollate>
class DataLoader {
  using Source = BatchSource<D, Collate>;

 public:
  using Batch = BatchOf<Source>;
  class Iterator;

  /// In sequence, or shuffled. Without options.seed a seed is drawn from this process's random numbers.
  /// Throws InvalidArgument for options out of range, and for a share without a seed: processes that draw one might
  /// draw different ones.
  explicit DataLoader(D dataset, const LoaderOptions& options = {}, Collate collate = {})
      : source_(std::make_shared<const Source>(std::move(dataset), std::move(collate))),
        schedule_(std::make_shared<EpochSchedule>(dataset_size(), options)) {}

  /// In the order that the sampler gives. An index outside of the dataset throws InvalidArgument when its epoch begins.
  template <Sampler S>
  DataLoader(D dataset, S sampler, const LoaderOptions& options = {}, Collate collate = {})
      : source_(std::make_shared<const Source>(std::move(dataset), std::move(collate))) {
    const auto size = std::int64_t(sampler.size());
    auto indices = [sampler = std::move(sampler)](std::int64_t epoch) { return sampler.indices(epoch); };
    schedule_ = std::make_shared<EpochSchedule>(dataset_size(), options,
                                                EpochSchedule::Order{.size = size, .indices = std::move(indices)});
  }

  DataLoader(DataLoader&&) noexcept = default;
  DataLoader& operator=(DataLoader&&) noexcept = default;

  /// Begins a new epoch, shuffled anew; after load_state() the rest of the epoch that the state is in. Makes the first
  /// batch, so it may throw what get() and the collation throw.
  Iterator begin() {
    schedule();
    return Iterator(std::make_unique<EpochLoop<Source>>(source_, schedule_));
  }
  std::default_sentinel_t end() const noexcept { return {}; }

  /// Batches in an epoch.
  std::int64_t size() const { return schedule().batches(); }
  /// Rows of a batch of an epoch, over all processes. Throws InvalidArgument unless 0 <= batch < size().
  std::int64_t rows_in(std::int64_t batch) const {
    if (batch < 0 || batch >= size()) detail::throw_no_such_batch(batch, size());
    return schedule().rows_in(batch);
  }
  const BatchShare& share() const { return schedule().options().share; }  ///< Which rows of each batch are made.
  /// As it was given.
  const D& dataset() const { return lockstep::detail::there(source_, "DataLoader", "a loader").dataset(); }

  /// Where the loop stands that was begun last. In the body of a loop that is after the batch at hand, whose index
  /// is batch - 1; after a whole loop, the beginning of the next epoch.
  LoaderState state() const { return schedule().state(); }
  /// The next loop goes on from there with the batches that would have followed, and epochs count from there. The
  /// state's seed replaces this loader's; a sampler keeps its own. Throws InvalidArgument for a state that does not
  /// fit, and changes nothing then.
  void load_state(const LoaderState& state) { schedule().load(state); }

 private:
  EpochSchedule& schedule() const { return lockstep::detail::there(schedule_, "DataLoader", "a loader"); }
  std::int64_t dataset_size() const { return std::int64_t(dataset().size()); }

  std::shared_ptr<const Source> source_;
  std::shared_ptr<EpochSchedule> schedule_;
};

/// The batch at hand, which is the loop's to change. When an iterator goes, what was being made ahead of it is
/// cancelled and waited for. An iterator that threw is at its end; to read there throws InvalidArgument.
template <Dataset D, class Collate>
class DataLoader<D, Collate>::Iterator {
 public:
  /// For std::ranges.
  using iterator_concept = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  /// Throws InvalidArgument at the end.
  Batch& operator*() const {
    if (!loop().batch()) detail::throw_at_end();
    return *loop().batch();
  }
  Batch* operator->() const { return &**this; }  ///< Throws InvalidArgument at the end.
  /// To the next batch; throws what get() and the collation throw.
  Iterator& operator++() {
    loop().advance();
    return *this;
  }
  void operator++(int) { ++*this; }  ///< To the next batch; throws what get() and the collation throw.
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.loop().batch(); }

 private:
  friend class DataLoader;
  explicit Iterator(std::unique_ptr<EpochLoop<Source>> loop) : loop_(std::move(loop)) {}
  EpochLoop<Source>& loop() const { return lockstep::detail::there(loop_, "DataLoader", "an iterator"); }

  std::unique_ptr<EpochLoop<Source>> loop_;
};

}  // namespace lockstep::data

// size() is that of a whole epoch: a loop after load_state() may have fewer batches, so views must look for its end.
template <class D, class Collate>
inline constexpr bool std::ranges::disable_sized_range<lockstep::data::DataLoader<D, Collate>> = true;
