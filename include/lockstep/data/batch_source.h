// BatchSource: makes one batch at a time, on any thread.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/core/rethrow.h>
#include <lockstep/data/batch_tensors.h>
#include <lockstep/data/collate.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/epoch_schedule.h>
#include <lockstep/tensor/random.h>

namespace lockstep::data {

/// Passed to the code that makes a batch: carries the request to stop, and receives the progress.
struct MakeContext {
  std::stop_token stop = {};                    ///< Requests an early end.
  std::atomic<std::int64_t>* sample = nullptr;  ///< Set to the index of the sample that is being read; -1: none.

  /// Reports which sample is being read.
  void reads(std::int64_t index) const noexcept {
    if (sample) sample->store(index, std::memory_order_relaxed);
  }
};

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_no_batch_without_rows();

template <class Batch>
void leave_no_rows(Batch& batch) {
  const auto cut = [](Tensor& tensor) {
    if (tensor.dim() > 0) tensor = tensor.narrow(0, 0, 0);
  };
  for_each_tensor_of(batch, cut, throw_no_batch_without_rows);
}

template <class Collate, class Sample>
auto collated(const Collate& collate, std::vector<Sample> samples, SampleIndices indices) {
  if constexpr (std::invocable<const Collate&, std::vector<Sample>, SampleIndices>) {
    return collate(std::move(samples), indices);
  } else {
    return collate(std::move(samples));
  }
}

/// Calls `read` with `generator` as the thread's random sequence. Adds the sample's index to the messages of
/// exceptions.
template <class Read>
auto read_sample(std::int64_t index, GeneratorState generator, const MakeContext& context, const Read& read) {
  const GeneratorGuard guard(generator);
  context.reads(index);
  try {
    return read();
  } catch (...) {
    lockstep::detail::rethrow_with_context("in sample " + std::to_string(index));
  }
}

/// Calls `collate` with the batch's random sequence. Adds the batch's number to the messages of exceptions. `is_none`:
/// this process has no row of the batch, so the batch is cut to 0 rows.
template <class CollateBatch>
auto make_batch(const EpochPlan& plan, std::int64_t batch, bool is_none, const CollateBatch& collate) {
  GeneratorState generator = plan.collate_generator(batch);
  const GeneratorGuard guard(generator);
  try {
    std::optional<decltype(collate())> made(collate());
    if (is_none) leave_no_rows(*made);
    return made;
  } catch (...) {
    lockstep::detail::rethrow_with_context("in batch " + std::to_string(batch));
  }
}
}  // namespace detail

/// A dataset, and the function that collates its samples. `Collate` takes a std::vector of samples, and optionally
/// their indices.
template <Dataset D, class Collate>
class BatchSource {
 public:
  using Sample = SampleOf<D>;  ///< A sample, as get() returns it.

  BatchSource(D dataset, Collate collate) : dataset_(std::move(dataset)), collate_(std::move(collate)) {}

  const D& dataset() const noexcept { return dataset_; }  ///< The dataset, as given.

  /// Returns nullopt if a stop was requested. Errors of get() name the index of the sample, errors of the collation
  /// name the number of the batch. If this process has no row of the batch, makes a batch of the first row and cuts it
  /// to 0 rows.
  auto make(const EpochPlan& plan, std::int64_t batch, const MakeContext& context) const {
    const RowRange mine = plan.rows(batch), made = mine.count > 0 ? mine : RowRange{.first = 0, .count = 1};
    const SampleIndices indices = plan.indices(batch, made);
    using Batch = decltype(collate({}, indices));
    std::vector<Sample> samples;
    if constexpr (!kInOnePiece) {
      samples.reserve(indices.size());
      for (std::size_t i = 0; i < indices.size(); ++i) {
        if (context.stop.stop_requested()) return std::optional<Batch>();
        samples.push_back(detail::read_sample(indices[i], plan.sample_generator(batch, made.first + std::int64_t(i)),
                                              context, [&] { return dataset_.get(indices[i]); }));
      }
    }
    context.reads(-1);
    return detail::make_batch(plan, batch, mine.count == 0, [&] { return collate(std::move(samples), indices); });
  }

 private:
  static constexpr bool kInOnePiece = BatchDataset<D> && std::same_as<Collate, DefaultCollate>;

  auto collate(std::vector<Sample> samples, SampleIndices indices) const {
    if constexpr (kInOnePiece) {
      return dataset_.get_batch(indices);
    } else {
      return detail::collated(collate_, std::move(samples), indices);
    }
  }

  D dataset_;
  Collate collate_;
};

/// The type of a source's batches.
template <class Source>
using BatchOf = typename decltype(std::declval<const Source&>().make(std::declval<const EpochPlan&>(), 0,
                                                                     MakeContext()))::value_type;

}  // namespace lockstep::data
