// Datasets without a size: streams and ranges of samples.
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

/// next() returns the next sample, or nullopt at the end. Each epoch begins with reset(). If there is no reset(), an
/// epoch continues where the previous epoch ended.
template <class D>
concept SampleStream = std::move_constructible<D> && requires(D& dataset) {
  requires detail::kIsOptional<std::remove_cvref_t<decltype(dataset.next())>>;
};

/// Each epoch goes from begin() to end(); begin() starts over.
template <class D>
concept SampleRange = std::move_constructible<D> && std::ranges::input_range<D> && !SampleStream<D>;

/// Samples are read in sequence, by one thread at a time. Random numbers drawn while a sample is read (rand(), randn(),
/// ...) depend only on the loader's seed, the epoch and the sample's number in the epoch.
template <class D>
concept IterableDataset = !Dataset<D> && (SampleStream<D> || SampleRange<D>);

/// The datasets that a DataLoader accepts.
template <class D>
concept LoadableDataset = Dataset<D> || IterableDataset<D>;

/// True if the dataset can start over at its first sample: it is a range, or has reset().
template <IterableDataset D>
inline constexpr bool kRestartable = SampleRange<D> || requires(D& dataset) {
  dataset.reset();
};

/// True if several loops over the dataset may run at once.
template <IterableDataset D>
inline constexpr bool kConcurrentlyIterable = SampleRange<D>&& std::ranges::forward_range<const D>;

/// Reads one epoch of a dataset. One thread at a time.
template <IterableDataset D>
class SampleReader;

/// Specialization for a SampleStream.
template <IterableDataset D>
requires SampleStream<D>
class SampleReader<D> {
 public:
  /// The type of the samples.
  using Sample = typename std::remove_cvref_t<decltype(std::declval<D&>().next())>::value_type;

  explicit SampleReader(std::shared_ptr<D> dataset) : dataset_(std::move(dataset)) {}

  std::optional<Sample> next() {
    if (!std::exchange(begun_, true))
      if constexpr (kRestartable<D>) dataset_->reset();
    return dataset_->next();
  }

 private:
  std::shared_ptr<D> dataset_;
  bool begun_ = false;
};

/// Specialization for a SampleRange.
template <IterableDataset D>
requires SampleRange<D>
class SampleReader<D> {
  using Range = std::conditional_t<kConcurrentlyIterable<D>, const D, D>;

 public:
  using Sample = std::remove_cvref_t<std::ranges::range_reference_t<Range>>;  ///< The type of the samples.

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
