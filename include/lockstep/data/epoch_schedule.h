// Which samples make up which batch, and how far a loader has come: all of a DataLoader that does not depend on its
// types. EpochPlan may be read from several threads at once; EpochSchedule belongs to the thread of its loader.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/data/loader_options.h>
#include <lockstep/tensor/random.h>

namespace lockstep::data {

/// The batches of one epoch.
class LOCKSTEP_API EpochPlan {
 public:
  /// What the plan is of.
  struct Options {
    std::uint64_t seed = 0;
    std::int64_t epoch = 0;
    std::int64_t first_batch = 0;  ///< Where to begin.
    std::int64_t batches = 0;
    std::int64_t batch_size = 1;
    BatchShare share = {};
    std::uint64_t loop = 0;  ///< Which of the schedule's loops it is for.
  };
  /// Throws InvalidArgument for an index outside of [0, dataset_size).
  EpochPlan(const Options& options, std::vector<std::int64_t> indices, std::int64_t dataset_size);

  std::int64_t epoch() const noexcept { return options_.epoch; }  ///< From 0.
  std::uint64_t loop() const noexcept { return options_.loop; }   ///< Which of the schedule's loops it is for.
  std::int64_t first_batch() const noexcept { return options_.first_batch; }  ///< Where it begins.
  std::int64_t batches() const noexcept { return options_.batches; }          ///< Of a whole epoch.
  std::int64_t batch_size() const noexcept { return options_.batch_size; }    ///< Over all processes.
  const BatchShare& share() const noexcept { return options_.share; }         ///< This process's rows.
  /// This process's rows of a batch; there may be none.
  RowRange rows(std::int64_t batch) const noexcept;
  /// The indices of the samples of these rows of a batch.
  std::span<const std::int64_t> indices(std::int64_t batch, RowRange rows) const noexcept;

  /// What the get() of the sample of a batch's row draws from: follows from the seed, the epoch, the index and how
  /// often the index was drawn before in this epoch; not from the size of the batch or the number of processes.
  GeneratorState sample_generator(std::int64_t batch, std::int64_t row) const noexcept;
  /// The same for a sample that is known by its number in the epoch.
  GeneratorState numbered_generator(std::int64_t sample) const noexcept;
  /// What the collation of the batch draws from, the same in every process.
  GeneratorState collate_generator(std::int64_t batch) const noexcept;

 private:
  Options options_;
  std::vector<std::int64_t> indices_;
  std::vector<std::uint32_t> repeats_;  // how often each was drawn before
};

/// Plans one epoch after the other.
class LOCKSTEP_API EpochSchedule {
 public:
  /// The order of samples in an epoch: `size` indices.
  struct Order {
    std::int64_t size = 0;
    std::function<std::vector<std::int64_t>(std::int64_t epoch)> indices;
  };

  /// In sequence, or shuffled by the seed. Throws InvalidArgument for options out of range.
  EpochSchedule(std::int64_t dataset_size, const LoaderOptions& options);
  /// As a sampler says; options.shuffle is refused then.
  EpochSchedule(std::int64_t dataset_size, const LoaderOptions& options, Order order);
  /// Of a dataset without a size: an epoch has kUnknown batches, and ends earlier. options.shuffle is refused then.
  explicit EpochSchedule(const LoaderOptions& options);

  static constexpr std::int64_t kUnknown = std::int64_t(1) << 62;  ///< Batches of a dataset without a size.

  std::int64_t batches() const noexcept { return batches_; }  ///< Of a whole epoch.
  /// Of a batch, over all processes; 0 <= batch < batches().
  std::int64_t rows_in(std::int64_t batch) const noexcept;
  const LoaderOptions& options() const noexcept { return options_; }  ///< As they were given.

  /// Where the next epoch begins: 0, or as load() said.
  std::int64_t next_batch() const noexcept { return begun_ ? 0 : state_.batch; }
  /// The next epoch, or the rest of the one that load() named.
  EpochPlan begin_epoch();
  /// A loop is about to get the batch before `next_batch`. One that is not the latest any more changes nothing.
  void advance(std::uint64_t loop, std::int64_t next_batch) noexcept;
  /// A loop has had all batches.
  void finish(std::uint64_t loop) noexcept;

  LoaderState state() const noexcept { return state_; }  ///< Where the loop stands that was begun last.
  /// Throws InvalidArgument for a state that this schedule cannot be in, and changes nothing then.
  void load(const LoaderState& state);

 private:
  bool is_running(std::uint64_t loop) const noexcept { return begun_ && loops_ == loop; }
  LoaderState following_epoch() const noexcept;

  std::int64_t dataset_size_;
  LoaderOptions options_;
  Order order_;
  std::int64_t batches_ = 0;
  LoaderState state_;
  bool begun_ = false;       // whether a loop over state_.epoch has begun
  std::uint64_t loops_ = 0;  // begun so far
};

}  // namespace lockstep::data
