#include <lockstep/data/epoch_schedule.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/sampler.h>

#include "core/text.h"
#include "data/random_bits.h"

namespace lockstep::data {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr std::int64_t kMaxEpoch = std::int64_t(1) << 62;  // so that counting further epochs does not overflow
// An epoch that reads less than 1 / kSparse of its dataset counts repetitions in a map, not in an array of all samples.
constexpr std::size_t kSparse = 64;

void check(bool holds, const char* expected, auto got) {
  if (!holds) throw InvalidArgument(text("[DataLoader] expected ", expected, ", got ", got));
}

void check_options(const LoaderOptions& options) {
  check(options.batch_size >= 1, "batch_size >= 1", options.batch_size);
  check(options.num_workers >= 0 && options.num_workers <= kMaxWorkers, "num_workers from 0 to 1024",
        options.num_workers);
  check(options.prefetch_factor >= 1, "prefetch_factor >= 1", options.prefetch_factor);
  options.share.check();
  check(options.timeout.count() >= 0, "a timeout of at least 0 ms", options.timeout.count());
  check(options.timeout.count() == 0 || options.num_workers > 0,
        "num_workers > 0 with a timeout, which limits the wait for workers", "none");
  check(options.share.is_all() || options.seed, "a seed, the same in all processes, with a share of the rows", "none");
}

std::uint64_t drawn_seed() {
  const GeneratorState drawn = draw(1);
  return mix(mix(drawn.seed, drawn.stream), drawn.offset);
}

}  // namespace

EpochPlan::EpochPlan(const Options& options, std::vector<std::int64_t> indices, std::int64_t dataset_size)
    : options_(options), indices_(std::move(indices)) {
  repeats_.reserve(indices_.size());
  const auto count_repeats = [&](auto drawn) {
    for (const std::int64_t index : indices_) {
      if (index < 0 || index >= dataset_size)
        throw InvalidArgument(
            text("[DataLoader] expected indices in [0, ", dataset_size, ") from the sampler, got ", index));
      repeats_.push_back(drawn[std::size_t(index)]++);
    }
  };
  if (std::size_t(dataset_size) / kSparse > indices_.size()) {
    count_repeats(std::unordered_map<std::size_t, std::uint32_t>());
  } else {
    count_repeats(std::vector<std::uint32_t>(std::size_t(dataset_size), 0));
  }
}

RowRange EpochPlan::rows(std::int64_t batch) const noexcept {
  const std::int64_t left = std::int64_t(indices_.size()) - batch * options_.batch_size;
  return options_.share.rows(std::min(options_.batch_size, left));
}

std::span<const std::int64_t> EpochPlan::indices(std::int64_t batch, RowRange rows) const noexcept {
  return std::span(indices_).subspan(std::size_t(batch * options_.batch_size + rows.first), std::size_t(rows.count));
}

// The samples and the collations of an epoch get different seeds, so that they do not draw the same random numbers.
GeneratorState EpochPlan::sample_generator(std::int64_t batch, std::int64_t row) const noexcept {
  const auto position = std::size_t(batch * options_.batch_size + row);
  return {.seed = mix(options_.seed, 2 * std::uint64_t(options_.epoch)),
          .stream = mix(std::uint64_t(indices_[position]), repeats_[position])};
}

GeneratorState EpochPlan::numbered_generator(std::int64_t sample) const noexcept {
  return {.seed = mix(options_.seed, 2 * std::uint64_t(options_.epoch)), .stream = mix(std::uint64_t(sample), 0)};
}

GeneratorState EpochPlan::collate_generator(std::int64_t batch) const noexcept {
  return {.seed = mix(options_.seed, 2 * std::uint64_t(options_.epoch) + 1), .stream = std::uint64_t(batch)};
}

EpochSchedule::EpochSchedule(std::int64_t dataset_size, const LoaderOptions& options)
    : EpochSchedule(dataset_size, options, Order{.size = dataset_size, .indices = {}}) {}

EpochSchedule::EpochSchedule(std::int64_t dataset_size, const LoaderOptions& options, Order order)
    : dataset_size_(dataset_size), options_(options), order_(std::move(order)) {
  check(dataset_size >= 0, "a dataset of size >= 0", dataset_size);
  check(order_.size >= 0, "a sampler of size >= 0", order_.size);
  check(!(order_.indices && options.shuffle), "shuffle only without a sampler", "both");
  check_options(options);
  batches_ = order_.size / options.batch_size;
  if (!options.drop_last && order_.size % options.batch_size != 0) ++batches_;
  state_ = {.seed = options.seed ? *options.seed : drawn_seed(), .batch_size = options.batch_size};
}

EpochSchedule::EpochSchedule(const LoaderOptions& options) : dataset_size_(0), options_(options), batches_(kUnknown) {
  check(!options.shuffle, "shuffle only for a dataset with a size", "a dataset without a size");
  check_options(options);
  state_ = {.seed = options.seed ? *options.seed : drawn_seed(), .batch_size = options.batch_size};
}

std::int64_t EpochSchedule::rows_in(std::int64_t batch) const noexcept {
  return std::min(options_.batch_size, order_.size - batch * options_.batch_size);
}

EpochPlan EpochSchedule::begin_epoch() {
  const LoaderState next = begun_ ? following_epoch() : state_;
  std::vector<std::int64_t> indices;
  if (order_.indices) {
    indices = order_.indices(next.epoch);
    check(std::int64_t(indices.size()) == order_.size, "as many indices as the sampler's size", indices.size());
  } else if (options_.shuffle) {
    indices = RandomSampler(dataset_size_, {.seed = next.seed}).indices(next.epoch);
  } else {
    indices = SequentialSampler(dataset_size_).indices(next.epoch);
  }
  EpochPlan plan({.seed = next.seed,
                  .epoch = next.epoch,
                  .first_batch = next.batch,
                  .batches = batches_,
                  .batch_size = options_.batch_size,
                  .share = options_.share,
                  .loop = loops_ + 1},
                 std::move(indices), dataset_size_);
  state_ = next;
  begun_ = true;
  ++loops_;
  return plan;
}

void EpochSchedule::advance(std::uint64_t loop, std::int64_t next_batch) noexcept {
  if (is_running(loop)) state_.batch = next_batch;
}

void EpochSchedule::finish(std::uint64_t loop) noexcept {
  if (!is_running(loop)) return;
  state_ = following_epoch();
  begun_ = false;
}

LoaderState EpochSchedule::following_epoch() const noexcept {
  return {.seed = state_.seed, .epoch = state_.epoch + 1, .batch = 0, .batch_size = state_.batch_size};
}

void EpochSchedule::load(const LoaderState& state) {
  check(state.epoch >= 0 && state.epoch <= kMaxEpoch, "a state with epoch from 0 to 2^62", state.epoch);
  if (state.batch < 0 || state.batch > batches_)
    throw InvalidArgument(text("[DataLoader] expected a state with batch from 0 to ", batches_, ", got ", state.batch));
  if (state.batch > 0 && state.batch_size != 0 && state.batch_size != options_.batch_size)
    throw InvalidArgument(text("[DataLoader] expected a state saved with batch_size ", options_.batch_size,
                               ", got one saved with ", state.batch_size));
  state_ = state;
  state_.batch_size = options_.batch_size;
  begun_ = false;
}

namespace detail {

void throw_no_batch_without_rows() {
  throw InvalidArgument(
      "[DataLoader] cannot find the tensors in the batch type, to make a batch of no rows. Give the struct a members() "
      "function, or use a tuple of tensors");
}

void throw_no_such_batch(std::int64_t batch, std::int64_t batches) {
  const std::string range = batches == 0 ? "no batch has been read" : text("an epoch has batches 0 to ", batches - 1);
  throw InvalidArgument(text("[DataLoader] rows_in(", batch, "): ", range));
}

void throw_two_loops() {
  throw InvalidArgument(
      "[DataLoader] expected one loop at a time over a dataset without a size, got a second one (after a TimeoutError: "
      "the worker that hangs still reads the dataset)");
}

void throw_no_state() {
  throw InvalidArgument(
      "[DataLoader] state() and load_state() need a dataset that can start over: give it reset(), or begin() and "
      "end()");
}

void throw_at_end() {
  throw InvalidArgument("[DataLoader] expected a batch at the iterator, got the end of the epoch");
}

}  // namespace detail
}  // namespace lockstep::data
