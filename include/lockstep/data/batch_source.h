// BatchSource: makes one batch, from any thread.
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
#include <lockstep/data/collate.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/epoch_schedule.h>
#include <lockstep/tensor/random.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep::data {

/// What the maker of a batch hears, and tells.
struct Making {
  std::stop_token stop = {};                    ///< Asks to end early.
  std::atomic<std::int64_t>* sample = nullptr;  ///< To be set to the sample that is being read; -1: none is.

  /// Tells which sample is read.
  void reads(std::int64_t index) const noexcept {
    if (sample) sample->store(index, std::memory_order_relaxed);
  }
};

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_no_batch_without_rows();

template <class Batch>
void leave_no_rows(Batch& batch) {
  visit_tensors(
      batch, MemberPath(),
      [](const MemberPath&, Tensor& tensor) {
        if (tensor.defined() && tensor.dim() > 0) tensor = tensor.narrow(0, 0, 0);
      },
      []<class Part>(const MemberPath&, const Part&) {
        if constexpr (!kShowsTensors<Part>) throw_no_batch_without_rows();
      },
      [](const MemberPath&, std::size_t) {});
}

template <class Collate, class Sample>
auto collated(const Collate& collate, std::vector<Sample> samples, SampleIndices indices) {
  if constexpr (std::invocable<const Collate&, std::vector<Sample>, SampleIndices>) {
    return collate(std::move(samples), indices);
  } else {
    return collate(std::move(samples));
  }
}

/// What `read` gives, with its random numbers from `generator`; its errors name the sample.
template <class Read>
auto read_sample(std::int64_t index, GeneratorState generator, const Making& making, const Read& read) {
  const GeneratorGuard guard(generator);
  making.reads(index);
  try {
    return read();
  } catch (...) {
    lockstep::detail::rethrow_with_context("in sample " + std::to_string(index));
  }
}

/// What `collate` gives, without rows where `is_none`; its errors name the batch.
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

/// A dataset, and how its samples become batches. `Collate` takes a std::vector of samples, and their indices if it
/// wants them.
template <Dataset D, class Collate>
class BatchSource {
 public:
  using Sample = SampleOf<D>;  ///< What the dataset gives.

  BatchSource(D dataset, Collate collate) : dataset_(std::move(dataset)), collate_(std::move(collate)) {}

  const D& dataset() const noexcept { return dataset_; }  ///< As it was given.

  /// Nothing if a stop was requested. Errors of get() name the index of the sample, those of the collation the number
  /// of the batch. Where this process has no row of the batch, what the batch's first row gives, without that row.
  auto make(const EpochPlan& plan, std::int64_t batch, const Making& making) const {
    const RowRange mine = plan.rows(batch), made = mine.count > 0 ? mine : RowRange{.first = 0, .count = 1};
    const SampleIndices indices = plan.indices(batch, made);
    using Batch = decltype(collate({}, indices));
    std::vector<Sample> samples;
    if constexpr (!kInOnePiece) {
      samples.reserve(indices.size());
      for (std::size_t i = 0; i < indices.size(); ++i) {
        if (making.stop.stop_requested()) return std::optional<Batch>();
        samples.push_back(detail::read_sample(indices[i], plan.sample_generator(batch, made.first + std::int64_t(i)),
                                              making, [&] { return dataset_.get(indices[i]); }));
      }
    }
    making.reads(-1);
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

/// What a source makes.
template <class Source>
using BatchOf =
    typename decltype(std::declval<const Source&>().make(std::declval<const EpochPlan&>(), 0, Making()))::value_type;

}  // namespace lockstep::data
