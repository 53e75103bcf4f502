// DataLoader: the batches of a dataset, epoch after epoch.
//
//   data::DataLoader loader(RandomDataset(5, 100), {.batch_size = 30, .shuffle = true});
//   for (const Tensor& batch : loader) ...
//
// A loader and its iterators belong to one thread at a time. With workers, the dataset's get() and the collation run on
// several other threads at once; batches, their order and the random numbers drawn for them are the same for any number
// of workers. A loader or iterator that was moved from throws InvalidArgument.
//
// With options.share the loaders of several processes together make the batches of one loader: each process gets its
// rows of every batch, and all have the same number of batches. Order and random numbers depend on the seed and the
// whole batch, so the rows, including random numbers of get(), equal those of a single process. Two differences: a
// collation gets only its process's rows (it draws the same random numbers in every process), and a process without
// rows in a small last batch gets tensors of 0 rows along dimension 0 (other parts are those of one sample).
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
/// Returns the copier to the device; null if `device` is nullopt.
inline std::shared_ptr<DeviceCopies> copies_to(const std::optional<Device>& device) {
  return device ? std::make_shared<DeviceCopies>(*device) : nullptr;
}
/// Returns source->make() as a std::function, so that EpochLoop is compiled once per batch type, not per dataset.
template <class Source>
BatchMaker<data::BatchOf<Source>> maker_of(std::shared_ptr<const Source> source) {
  return [source = std::move(source)](const EpochPlan& plan, std::int64_t number, const MakeContext& context) {
    return source->make(plan, number, context);
  };
}
}  // namespace detail

/// Gives the batches of a dataset: see the top of this file.
template <LoadableDataset D, class Collate = DefaultCollate>
class DataLoader {
  using Source = BatchSource<D, Collate>;

 public:
  using Batch = BatchOf<Source>;
  using Iterator = LoaderIterator<Batch>;

  /// Reads samples in sequential order, or shuffled if options.shuffle is set. Without options.seed, a seed is drawn
  /// from this thread's random sequence. Throws InvalidArgument for options out of range, and for a share without a
  /// seed, because processes might draw different seeds.
  explicit DataLoader(D dataset, const LoaderOptions& options = {}, Collate collate = {})
      : source_(std::make_shared<const Source>(std::move(dataset), std::move(collate))),
        schedule_(std::make_shared<EpochSchedule>(dataset_size(), options)),
        copies_(detail::copies_to(options.device)) {}

  /// Reads samples in the order of the sampler. An index outside of the dataset throws InvalidArgument when its epoch
  /// begins.
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

  /// Begins a new epoch with a new shuffle; after load_state(), the rest of that state's epoch. Makes the first batch,
  /// so it may throw the errors of get() and the collation.
  Iterator begin() {
    schedule();
    return Iterator(std::make_unique<EpochLoop<Batch>>(detail::maker_of(source_), schedule_, copies_));
  }
  std::default_sentinel_t end() const noexcept { return {}; }

  /// Batches in an epoch.
  std::int64_t size() const { return schedule().batches(); }
  /// Rows of a batch over all processes. Throws InvalidArgument unless 0 <= batch < size().
  std::int64_t rows_in(std::int64_t batch) const {
    if (batch < 0 || batch >= size()) detail::throw_no_such_batch(batch, size());
    return schedule().rows_in(batch);
  }
  /// The rows of each batch that this loader makes.
  const BatchShare& share() const { return schedule().options().share; }
  /// The dataset, as given.
  const D& dataset() const { return lockstep::detail::checked_deref(source_, "DataLoader", "a loader").dataset(); }

  /// The position of the loop that was begun last. In the body of a loop, the position is after the current batch,
  /// whose index is batch - 1. After a complete loop, it is the beginning of the next epoch.
  LoaderState state() const { return schedule().state(); }
  /// The next loop continues from this position, with the batches that would have followed; epochs count from there.
  /// The state's seed replaces this loader's seed, but a sampler keeps its own. If the state does not fit, throws
  /// InvalidArgument and changes nothing.
  void load_state(const LoaderState& state) { schedule().load(state); }

 private:
  EpochSchedule& schedule() const { return lockstep::detail::checked_deref(schedule_, "DataLoader", "a loader"); }
  std::int64_t dataset_size() const { return std::int64_t(dataset().size()); }

  std::shared_ptr<const Source> source_;
  std::shared_ptr<EpochSchedule> schedule_;
  std::shared_ptr<DeviceCopies> copies_;
};

/// For a dataset without a size (data/iterable_dataset.h). Has no size(), no sampler and no shuffling. One worker at a
/// time reads samples, in order, and all workers collate; batches are the same for any number of workers. With
/// options.share each process reads the whole dataset, which must be the same in all, and keeps its rows.
template <IterableDataset D, class Collate>
class DataLoader<D, Collate> {
  using Source = IterableSource<D, Collate>;

 public:
  using Batch = BatchOf<Source>;
  using Iterator = LoaderIterator<Batch>;

  /// Throws InvalidArgument as the loader of a dataset with a size does, and if options.shuffle is set.
  explicit DataLoader(D dataset, const LoaderOptions& options = {}, Collate collate = {})
      : dataset_(std::make_shared<D>(std::move(dataset))),
        collate_(std::make_shared<const Collate>(std::move(collate))),
        schedule_(std::make_shared<EpochSchedule>(options)),
        copies_(detail::copies_to(options.device)) {}

  DataLoader(DataLoader&&) noexcept = default;
  DataLoader& operator=(DataLoader&&) noexcept = default;

  /// Begins a new epoch. After load_state(), reads the earlier samples of that state's epoch again and continues
  /// it. Throws InvalidArgument while another loop runs over the dataset, unless the const dataset is a forward
  /// range.
  Iterator begin() {
    if (!lease_.expired()) detail::throw_two_loops();
    std::shared_ptr<void> lease;
    if constexpr (!kConcurrentlyIterable<D>) lease_ = lease = std::make_shared<int>();
    auto source = std::make_shared<const Source>(dataset_, collate_, schedule().next_batch(),
                                                 schedule().options().drop_last, std::move(lease));
    source_ = source;
    return Iterator(std::make_unique<EpochLoop<Batch>>(detail::maker_of(std::move(source)), schedule_, copies_));
  }
  std::default_sentinel_t end() const noexcept { return {}; }

  /// Rows, over all processes, of a batch that the latest loop has made. Throws InvalidArgument for other batches.
  std::int64_t rows_in(std::int64_t batch) const {
    const std::shared_ptr<const Source> source = source_.lock();
    if (!source) detail::throw_no_such_batch(batch, 0);
    return source->rows_in(batch);
  }
  const BatchShare& share() const { return schedule().options().share; }
  const D& dataset() const { return lockstep::detail::checked_deref(dataset_, "DataLoader", "a loader"); }

  /// Returns the position, as the loader of a dataset with a size does. Throws InvalidArgument if the dataset cannot
  /// start over, because a loaded state could not read the earlier samples again.
  LoaderState state() const {
    if constexpr (!kRestartable<D>) detail::throw_no_state();
    return schedule().state();
  }
  void load_state(const LoaderState& state) {
    if constexpr (!kRestartable<D>) detail::throw_no_state();
    schedule().load(state);
  }

 private:
  EpochSchedule& schedule() const { return lockstep::detail::checked_deref(schedule_, "DataLoader", "a loader"); }

  std::shared_ptr<D> dataset_;
  std::shared_ptr<const Collate> collate_;
  std::shared_ptr<EpochSchedule> schedule_;
  std::shared_ptr<DeviceCopies> copies_;
  std::weak_ptr<void> lease_;           // held by the running loop, if there is one
  std::weak_ptr<const Source> source_;  // the source of the loop that was begun last
};

}  // namespace lockstep::data

// size() counts a whole epoch, but a loop after load_state() may have fewer batches, so views must test for its end.
template <class D, class Collate>
inline constexpr bool std::ranges::disable_sized_range<lockstep::data::DataLoader<D, Collate>> = true;
