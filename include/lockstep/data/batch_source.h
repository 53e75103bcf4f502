// BatchSource: makes one batch, from any thread.
#pragma once

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

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_no_batch_without_rows();
}

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
  auto make(const EpochPlan& plan, std::int64_t batch, const std::stop_token& stop) const {
    const RowRange mine = plan.rows(batch), made = mine.count > 0 ? mine : RowRange{.first = 0, .count = 1};
    const SampleIndices indices = plan.indices(batch, made);
    using Batch = decltype(collate({}, indices));
    std::vector<Sample> samples;
    if constexpr (!kInOnePiece) {
      samples.reserve(indices.size());
      for (std::size_t i = 0; i < indices.size(); ++i) {
        if (stop.stop_requested()) return std::optional<Batch>();
        samples.push_back(get(indices[i], plan.sample_generator(batch, made.first + std::int64_t(i))));
      }
    }
    Generator generator = plan.collate_generator(batch);
    const GeneratorGuard guard(generator);
    try {
      std::optional<Batch> made_batch(collate(std::move(samples), indices));
      if (mine.count == 0) leave_no_rows(*made_batch);
      return made_batch;
    } catch (...) {
      lockstep::detail::rethrow_with_context("in batch " + std::to_string(batch));
    }
  }

 private:
  static constexpr bool kInOnePiece = BatchDataset<D> && std::same_as<Collate, DefaultCollate>;

  Sample get(std::int64_t index, Generator generator) const {
    const GeneratorGuard guard(generator);
    try {
      return dataset_.get(index);
    } catch (...) {
      lockstep::detail::rethrow_with_context("in sample " + std::to_string(index));
    }
  }

  auto collate(std::vector<Sample> samples, SampleIndices indices) const {
    if constexpr (kInOnePiece) {
      return dataset_.get_batch(indices);
    } else if constexpr (std::invocable<const Collate&, std::vector<Sample>, SampleIndices>) {
      return collate_(std::move(samples), indices);
    } else {
      return collate_(std::move(samples));
    }
  }

  template <class Batch>
  static void leave_no_rows(Batch& batch) {
    visit_tensors(
        batch, Path(),
        [](const Path&, Tensor& tensor) {
          if (tensor.defined() && tensor.dim() > 0) tensor = tensor.narrow(0, 0, 0);
        },
        []<class Part>(const Path&, const Part&) {
          if constexpr (!kShowsTensors<Part>) detail::throw_no_batch_without_rows();
        },
        [](const Path&, std::size_t) {});
  }

  D dataset_;
  Collate collate_;
};

/// What a source makes.
template <class Source>
using BatchOf = typename decltype(std::declval<const Source&>().make(std::declval<const EpochPlan&>(), 0,
                                                                     std::stop_token()))::value_type;

}  // namespace lockstep::data
