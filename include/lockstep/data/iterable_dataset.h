// Datasets without a size: a stream of samples, or a range of them.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>

#include <lockstep/data/dataset.h>

namespace lockstep::data {

namespace detail {
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
}  // namespace detail

/// next() gives the next sample, and nothing at the end. Each epoch begins with reset(), where there is one; else it
/// goes on where the epoch before ended.
template <class D>
concept SampleStream = std::move_constructible<D> && requires(D& dataset) {
  requires detail::kIsOptional<std::remove_cvref_t<decltype(dataset.next())>>;
};

/// Each epoch goes from begin() to end(): begin() begins anew.
template <class D>
concept SampleRange = std::move_constructible<D> && std::ranges::input_range<D> && !SampleStream<D>;

/// Samples come one after the other, from one thread at a time. Random numbers that are drawn meanwhile (rand() and its
/// kin) depend on the loader's seed, the epoch and the sample's number in it alone.
template <class D>
concept IterableDataset = !Dataset<D> && (SampleStream<D> || SampleRange<D>);

/// What a DataLoader takes.
template <class D>
concept LoadableDataset = Dataset<D> || IterableDataset<D>;

/// Whether an epoch can be begun anew.
template <IterableDataset D>
inline constexpr bool kBeginsAnew = SampleRange<D> || requires(D& dataset) {
  dataset.reset();
};

/// Whether loops over the dataset may be under way at once.
template <IterableDataset D>
inline constexpr bool kSharedByLoops = SampleRange<D>&& std::ranges::forward_range<const D>;

/// One epoch of a dataset. One thread at a time.
template <IterableDataset D>
class SampleReader;

/// A specialization: see the template.
template <IterableDataset D>
requires SampleStream<D>
class SampleReader<D> {
 public:
  /// What the dataset gives.
  using Sample = typename std::remove_cvref_t<decltype(std::declval<D&>().next())>::value_type;

  explicit SampleReader(std::shared_ptr<D> dataset) : dataset_(std::move(dataset)) {}

  std::optional<Sample> next() {
    if (!std::exchange(begun_, true))
      if constexpr (kBeginsAnew<D>) dataset_->reset();
    return dataset_->next();
  }

 private:
  std::shared_ptr<D> dataset_;
  bool begun_ = false;
};

/// A specialization: see the template.
template <IterableDataset D>
requires SampleRange<D>
class SampleReader<D> {
  using Range = std::conditional_t<kSharedByLoops<D>, const D, D>;

 public:
  using Sample = std::remove_cvref_t<std::ranges::range_reference_t<Range>>;  ///< What the dataset gives.

  explicit SampleReader(std::shared_ptr<D> dataset) : dataset_(std::move(dataset)) {}

  std::optional<Sample> next() {
    Range& range = *dataset_;
    if (at_)
      ++*at_;
    else
      at_.emplace(std::ranges::begin(range));
    if (*at_ == std::ranges::end(range)) return std::nullopt;
    return std::optional<Sample>(**at_);
  }

 private:
  std::shared_ptr<D> dataset_;
  std::optional<std::ranges::iterator_t<Range>> at_;
};

}  // namespace lockstep::data
