// The assignment of samples to batches, and a loader's position: the part of a DataLoader that does not depend on its
// types. Several threads may read an EpochPlan at once; EpochSchedule belongs to the thread of its loader.
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
  /// Parameters of a plan.
  struct Options {
    std::uint64_t seed = 0;
    std::int64_t epoch = 0;
    std::int64_t first_batch = 0;  ///< The batch to begin at.
    std::int64_t batches = 0;
    std::int64_t batch_size = 1;
    BatchShare share = {};
    std::uint64_t loop = 0;  ///< The number of the loop that the plan is for.
  };
  /// Throws InvalidArgument for an index outside of [0, dataset_size).
  EpochPlan(const Options& options, std::vector<std::int64_t> indices, std::int64_t dataset_size);

  std::int64_t epoch() const noexcept { return options_.epoch; }  ///< The epoch's number, from 0.
  std::uint64_t loop() const noexcept { return options_.loop; }   ///< The number of the loop that the plan is for.
  std::int64_t first_batch() const noexcept { return options_.first_batch; }  ///< The batch that the loop begins at.
  std::int64_t batches() const noexcept { return options_.batches; }          ///< Batches in a whole epoch.
  std::int64_t batch_size() const noexcept { return options_.batch_size; }    ///< Rows over all processes.
  const BatchShare& share() const noexcept { return options_.share; }         ///< This process's rows.
  /// This process's rows of a batch. There may be none.
  RowRange rows(std::int64_t batch) const noexcept;
  /// The sample indices of the given rows of a batch.
  std::span<const std::int64_t> indices(std::int64_t batch, RowRange rows) const noexcept;

  /// The random sequence for get() of the sample in a row of a batch. Depends on the seed, the epoch, the sample's
  /// index and its earlier repetitions in this epoch, but not on the batch size or the number of processes.
  GeneratorState sample_generator(std::int64_t batch, std::int64_t row) const noexcept;
  /// The random sequence of sample number `sample` of the epoch, for a dataset without indices.
  GeneratorState numbered_generator(std::int64_t sample) const noexcept;
  /// The random sequence for the collation of the batch, the same in every process.
  GeneratorState collate_generator(std::int64_t batch) const noexcept;

 private:
  Options options_;
  std::vector<std::int64_t> indices_;
  std::vector<std::uint32_t> repeats_;  // for each index, how often it appeared earlier in the epoch
};

/// Plans one epoch after the other.
class LOCKSTEP_API EpochSchedule {
 public:
  /// The order of samples in an epoch: `size` indices.
  struct Order {
    std::int64_t size = 0;
    std::function<std::vector<std::int64_t>(std::int64_t epoch)> indices;
  };

  /// Plans epochs in the dataset's order, or, if options.shuffle is set, in an order shuffled by the seed. Throws
  /// InvalidArgument for options out of range.
  EpochSchedule(std::int64_t dataset_size, const LoaderOptions& options);
  /// Plans epochs in the order of a sampler. Throws InvalidArgument if options.shuffle is set.
  EpochSchedule(std::int64_t dataset_size, const LoaderOptions& options, Order order);
  /// Plans epochs of a dataset without a size: an epoch has at most kUnknown batches. Throws InvalidArgument if
  /// options.shuffle is set.
  explicit EpochSchedule(const LoaderOptions& options);

  /// Upper bound on the batches of a dataset without a size.
  static constexpr std::int64_t kUnknown = std::int64_t(1) << 62;

  std::int64_t batches() const noexcept { return batches_; }  ///< Batches in a whole epoch.
  /// Rows of a batch over all processes; 0 <= batch < batches().
  std::int64_t rows_in(std::int64_t batch) const noexcept;
  const LoaderOptions& options() const noexcept { return options_; }  ///< As given.

  /// The batch that the next epoch begins at: 0, or the batch of the loaded state.
  std::int64_t next_batch() const noexcept { return begun_ ? 0 : state_.batch; }
  /// Plans the next epoch, or the rest of the epoch in the loaded state.
  EpochPlan begin_epoch();
  /// Called when a loop gets a batch; `next_batch`: the number of the batch after it. Ignored unless `loop` is the
  /// latest loop.
  void advance(std::uint64_t loop, std::int64_t next_batch) noexcept;
  /// Called when a loop has got all batches of its epoch.
  void finish(std::uint64_t loop) noexcept;

  LoaderState state() const noexcept { return state_; }  ///< The position of the loop that was begun last.
  /// Throws InvalidArgument, and changes nothing then, for a state that does not fit this schedule.
  void load(const LoaderState& state);

 private:
  bool is_running(std::uint64_t loop) const noexcept { return begun_ && loops_ == loop; }
  LoaderState following_epoch() const noexcept;

  std::int64_t dataset_size_;
  LoaderOptions options_;
  Order order_;
  std::int64_t batches_ = 0;
  LoaderState state_;
  bool begun_ = false;       // a loop over state_.epoch has begun and not finished
  std::uint64_t loops_ = 0;  // loops begun so far
};

}  // namespace lockstep::data
