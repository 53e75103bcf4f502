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
#include <optional>
#include <ranges>
#include <utility>

#include <lockstep/core/moved_from.h>
#include <lockstep/data/batch_source.h>
#include <lockstep/data/collate.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/device_copies.h>
#include <lockstep/data/epoch_loop.h>
#include <lockstep/data/epoch_schedule.h>
#include <lockstep/data/iterable_source.h>
#include <lockstep/data/loader_iterator.h>
#include <lockstep/data/loader_options.h>
#include <lockstep/data/sampler.h>

namespace lockstep::data {

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_two_loops();
[[noreturn]] LOCKSTEP_API void throw_no_state();
[[noreturn]] LOCKSTEP_API void throw_no_such_batch(std::int64_t batch, std::int64_t batches);
/// Null without a device.
inline std::shared_ptr<DeviceCopies> copies_to(const std::optional<Device>& device) {
  return device ? std::make_shared<DeviceCopies>(*device) : nullptr;
}
/// A loop is compiled for each kind of batch, and not for each dataset.
template <class Source>
BatchMaker<data::BatchOf<Source>> maker_of(std::shared_ptr<const Source> source) {
  return [source = std::move(source)](const EpochPlan& plan, std::int64_t number, const Making& making) {
    return source->make(plan, number, making);
  };
}
}  // namespace detail

/// The batches of a dataset: see the description of the file.
template <LoadableDataset D, class Collate = DefaultCollate>
class DataLoader {
  using Source = BatchSource<D, Collate>;

 public:
  using Batch = BatchOf<Source>;
  using Iterator = LoaderIterator<Batch>;

  /// In sequence, or shuffled. Without options.seed a seed is drawn from this process's random numbers.
  /// Throws InvalidArgument for options out of range, and for a share without a seed: processes that draw one might
  /// draw different ones.
  explicit DataLoader(D dataset, const LoaderOptions& options = {}, Collate collate = {})
      : source_(std::make_shared<const Source>(std::move(dataset), std::move(collate))),
        schedule_(std::make_shared<EpochSchedule>(dataset_size(), options)),
        copies_(detail::copies_to(options.device)) {}

  /// In the order that the sampler gives. An index outside of the dataset throws InvalidArgument when its epoch begins.
  template <Sampler S>
  DataLoader(D dataset, S sampler, const LoaderOptions& options = {}, Collate collate = {})
      : source_(std::make_shared<const Source>(std::move(dataset), std::move(collate))),
        copies_(detail::copies_to(options.device)) {
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
    return Iterator(std::make_unique<EpochLoop<Batch>>(detail::maker_of(source_), schedule_, copies_));
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
  std::shared_ptr<DeviceCopies> copies_;
};

/// Over a dataset without a size (data/iterable_dataset.h). There is no size(), no sampler and no shuffling. With
/// workers one of them at a time reads samples, in order, and all collate; batches are the same for any number of
/// workers. With options.share each process reads the whole dataset, which must be the same in all, and keeps its rows.
template <IterableDataset D, class Collate>
class DataLoader<D, Collate> {
  using Source = IterableSource<D, Collate>;

 public:
  using Batch = BatchOf<Source>;
  using Iterator = LoaderIterator<Batch>;

  /// Throws InvalidArgument as that of a dataset with a size does, and for options.shuffle.
  explicit DataLoader(D dataset, const LoaderOptions& options = {}, Collate collate = {})
      : dataset_(std::make_shared<D>(std::move(dataset))),
        collate_(std::make_shared<const Collate>(std::move(collate))),
        schedule_(std::make_shared<EpochSchedule>(options)),
        copies_(detail::copies_to(options.device)) {}

  DataLoader(DataLoader&&) noexcept = default;
  DataLoader& operator=(DataLoader&&) noexcept = default;

  /// Begins a new epoch; after load_state() the rest of the epoch that the state is in, for which the samples before
  /// are read again. Throws InvalidArgument while another loop over a dataset is under way that cannot be shared (one
  /// that is no forward range as a const object).
  Iterator begin() {
    if (!lease_.expired()) detail::throw_two_loops();
    std::shared_ptr<void> lease;
    if constexpr (!kSharedByLoops<D>) lease_ = lease = std::make_shared<int>();
    auto source = std::make_shared<const Source>(dataset_, collate_, schedule().next_batch(),
                                                 schedule().options().drop_last, std::move(lease));
    source_ = source;
    return Iterator(std::make_unique<EpochLoop<Batch>>(detail::maker_of(std::move(source)), schedule_, copies_));
  }
  std::default_sentinel_t end() const noexcept { return {}; }

  /// Rows of a batch that the loop begun last has had, over all processes. Throws InvalidArgument for another one.
  std::int64_t rows_in(std::int64_t batch) const {
    const std::shared_ptr<const Source> source = source_.lock();
    if (!source) detail::throw_no_such_batch(batch, 0);
    return source->rows_in(batch);
  }
  const BatchShare& share() const { return schedule().options().share; }
  const D& dataset() const { return lockstep::detail::there(dataset_, "DataLoader", "a loader"); }

  /// As for a dataset with a size. Throws InvalidArgument for a dataset that does not begin anew: what it gave is gone.
  LoaderState state() const {
    if constexpr (!kBeginsAnew<D>) detail::throw_no_state();
    return schedule().state();
  }
  void load_state(const LoaderState& state) {
    if constexpr (!kBeginsAnew<D>) detail::throw_no_state();
    schedule().load(state);
  }

 private:
  EpochSchedule& schedule() const { return lockstep::detail::there(schedule_, "DataLoader", "a loader"); }

  std::shared_ptr<D> dataset_;
  std::shared_ptr<const Collate> collate_;
  std::shared_ptr<EpochSchedule> schedule_;
  std::shared_ptr<DeviceCopies> copies_;
  std::weak_ptr<void> lease_;           // of the loop under way
  std::weak_ptr<const Source> source_;  // of the loop begun last
};

}  // namespace lockstep::data

// size() is that of a whole epoch: a loop after load_state() may have fewer batches, so views must look for its end.
template <class D, class Collate>
inline constexpr bool std::ranges::disable_sized_range<lockstep::data::DataLoader<D, Collate>> = true;
