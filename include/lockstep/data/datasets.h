// Datasets built from other datasets: subset, concatenation, map. Several threads may read such a dataset at once if
// they may read the underlying datasets and call the function at once.
//
//   auto [train, test] = data::random_split(dataset, {0.8, 0.2}, {.seed = 1});
//   data::MapDataset(train, [](const Tensor& image) { return image.to(kFloat32) / 255; });
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/data/dataset.h>
#include <lockstep/data/iterable_dataset.h>

namespace lockstep::data {

namespace detail {
LOCKSTEP_API void check_indices(std::span<const std::int64_t> indices, std::int64_t size);
/// Throws InvalidArgument naming `op` unless 0 <= index < size.
LOCKSTEP_API void check_index(const char* op, std::int64_t index, std::int64_t size);
/// Returns a random permutation of 0 .. size - 1, cut into pieces of the given lengths, or of the given fractions of
/// the size.
LOCKSTEP_API std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size,
                                                                  std::span<const std::int64_t> lengths,
                                                                  std::uint64_t seed);
LOCKSTEP_API std::vector<std::vector<std::int64_t>> split_indices(std::int64_t size, std::span<const double> shares,
                                                                  std::uint64_t seed);
/// Returns the dataset that has sample `index` of a concatenation: the position in `ends`, which is increasing, of the
/// first number greater than `index`.
LOCKSTEP_API std::size_t part_of(std::int64_t index, std::span<const std::int64_t> ends);
}  // namespace detail

/// The samples of a dataset at given indices. Copies share the dataset.
template <Dataset D>
class Subset {
 public:
  /// Throws InvalidArgument for an index that the dataset does not have.
  Subset(D dataset, std::vector<std::int64_t> indices)
      : Subset(std::make_shared<const D>(std::move(dataset)), std::move(indices)) {}
  Subset(std::shared_ptr<const D> dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {
    detail::check_indices(indices_, std::int64_t(dataset_->size()));
  }

  std::int64_t size() const noexcept { return std::int64_t(indices_.size()); }
  const D& dataset() const noexcept { return *dataset_; }  ///< The underlying dataset.
  /// The samples' indices in the underlying dataset.
  const std::vector<std::int64_t>& indices() const noexcept { return indices_; }
  auto get(std::int64_t index) const { return dataset_->get(at(index)); }
  /// Available if the underlying dataset has get_batch().
  auto get_batch(std::span<const std::int64_t> indices) const requires BatchDataset<D> {
    std::vector<std::int64_t> inside;
    inside.reserve(indices.size());
    for (const std::int64_t index : indices) inside.push_back(at(index));
    return dataset_->get_batch(inside);
  }

 private:
  std::int64_t at(std::int64_t index) const {
    detail::check_index("Subset", index, size());
    return indices_[std::size_t(index)];
  }

  std::shared_ptr<const D> dataset_;
  std::vector<std::int64_t> indices_;
};

struct RandomSplitOptions {
  std::uint64_t seed = 0;  ///< The same seed gives the same split, on every machine.
};

/// Divides a dataset at random into parts, which share it. `lengths` are integers that sum to the dataset's size, or
/// floating fractions that sum to 1: each part gets its fraction of the size rounded down, and the first parts get one
/// of the remaining samples each (as in PyTorch). Throws InvalidArgument for other sums and for negative lengths.
template <Dataset D, class Number, std::size_t N>
requires std::is_arithmetic_v<Number> std::array<Subset<D>, N> random_split(D dataset, const Number (&lengths)[N],
                                                                            const RandomSplitOptions& options = {}) {
  using Length = std::conditional_t<std::is_integral_v<Number>, std::int64_t, double>;
  const auto shared = std::make_shared<const D>(std::move(dataset));
  const std::vector<Length> wanted(std::begin(lengths), std::end(lengths));
  auto pieces = detail::split_indices(std::int64_t(shared->size()), std::span<const Length>(wanted), options.seed);
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Subset<D>, N>{Subset<D>(shared, std::move(pieces[I]))...};
  }
  (std::make_index_sequence<N>());
}

/// Overload for a number of parts that is known at run time.
template <Dataset D, class Number>
requires std::is_arithmetic_v<Number> std::vector<Subset<D>> random_split(D dataset, const std::vector<Number>& lengths,
                                                                          const RandomSplitOptions& options = {}) {
  using Length = std::conditional_t<std::is_integral_v<Number>, std::int64_t, double>;
  const auto shared = std::make_shared<const D>(std::move(dataset));
  const std::vector<Length> wanted(lengths.begin(), lengths.end());
  std::vector<Subset<D>> parts;
  for (auto& piece : detail::split_indices(std::int64_t(shared->size()), std::span<const Length>(wanted), options.seed))
    parts.emplace_back(shared, std::move(piece));
  return parts;
}

/// The samples of the first dataset, then those of the second, and so on. All have the same sample type.
template <Dataset First, Dataset... Rest>
requires(std::same_as<SampleOf<First>, SampleOf<Rest>>&&...) class ConcatDataset {
 public:
  explicit ConcatDataset(First first, Rest... rest) : datasets_(std::move(first), std::move(rest)...) {
    std::apply([&](const auto&... dataset) { (ends_.push_back(size() + std::int64_t(dataset.size())), ...); },
               datasets_);
  }

  std::int64_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  SampleOf<First> get(std::int64_t index) const {
    detail::check_index("ConcatDataset", index, size());
    const std::size_t part = detail::part_of(index, ends_);
    return get_from<0>(part, index - (part > 0 ? ends_[part - 1] : 0));
  }

 private:
  template <std::size_t I>
  SampleOf<First> get_from(std::size_t part, std::int64_t index) const {
    if constexpr (I < sizeof...(Rest))
      if (part != I) return get_from<I + 1>(part, index);
    return std::get<I>(datasets_).get(index);
  }

  std::tuple<First, Rest...> datasets_;
  std::vector<std::int64_t> ends_;
};

namespace detail {
/// Several datasets of one type, concatenated.
template <Dataset D>
class Listed {
 public:
  Listed(std::vector<D> datasets) : datasets_(std::move(datasets)) {
    for (const D& dataset : datasets_) ends_.push_back(size() + std::int64_t(dataset.size()));
  }

  std::int64_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  auto get(std::int64_t index) const {
    const std::size_t part = part_of(index, ends_);
    return datasets_[part].get(index - (part > 0 ? ends_[part - 1] : 0));
  }

 private:
  std::vector<D> datasets_;
  std::vector<std::int64_t> ends_;
};
}  // namespace detail

/// Any number of datasets of one type: ConcatDataset(std::vector{a, b, c}).
template <Dataset D>
ConcatDataset(std::vector<D>) -> ConcatDataset<detail::Listed<D>>;

namespace detail {
template <class T>
inline constexpr bool kIsTuple = requires {
  std::tuple_size<T>::value;
};

/// The number of leading parts of a sample that the function takes; 0 if it takes none.
template <class Function, class Sample, std::size_t N = std::tuple_size_v<Sample>>
constexpr std::size_t taken_parts() {
  constexpr bool kTakes = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::invocable<const Function&, std::tuple_element_t<I, Sample>...>;
  }
  (std::make_index_sequence<N>());
  if constexpr (kTakes || N == 0)
    return N;
  else
    return taken_parts<Function, Sample, N - 1>();
}

/// Calls the function with a sample, or with its first parts (MapDataset).
template <class Function, class Sample>
auto mapped(const Function& function, Sample sample) {
  if constexpr (std::invocable<const Function&, Sample>) {
    return std::invoke(function, std::move(sample));
  } else {
    constexpr std::size_t kTaken = taken_parts<Function, Sample>(), kAll = std::tuple_size_v<Sample>;
    static_assert(kTaken > 0, "the function of a MapDataset takes the sample, or its first parts");
    auto made = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::invoke(function, std::get<I>(std::move(sample))...);
    }
    (std::make_index_sequence<kTaken>());
    if constexpr (kTaken > 1 && kTaken == kAll) {
      return made;
    } else {
      auto rest = [&]<std::size_t... I>(std::index_sequence<I...>) {
        return std::tuple<std::tuple_element_t<kTaken + I, Sample>...>(std::get<kTaken + I>(std::move(sample))...);
      }
      (std::make_index_sequence<kAll - kTaken>());
      if constexpr (kTaken > 1 && kIsTuple<decltype(made)>)
        return std::tuple_cat(std::move(made), std::move(rest));
      else
        return std::tuple_cat(std::tuple<decltype(made)>(std::move(made)), std::move(rest));
    }
  }
}
}  // namespace detail

/// Applies a function to each sample when the sample is read. If the function takes a whole sample, it gets that. If it
/// does not, the sample is a tuple or pair, and the function gets as many of its first parts as it takes: the image of
/// (image, label), or image and mask of (image, mask, name). The function's result replaces these parts (a tuple
/// replaces several), and the other parts stay.
template <LoadableDataset D, class Function>
class MapDataset {
 public:
  MapDataset(D dataset, Function function) : dataset_(std::move(dataset)), function_(std::move(function)) {}

  std::int64_t size() const { return std::int64_t(dataset_.size()); }
  auto get(std::int64_t index) const { return detail::mapped(function_, dataset_.get(index)); }

 private:
  D dataset_;
  Function function_;
};

/// Specialization for a dataset without a size: a stream.
template <IterableDataset D, class Function>
class MapDataset<D, Function> {
  using Mapped =
      decltype(detail::mapped(std::declval<const Function&>(), std::declval<typename SampleReader<D>::Sample>()));

 public:
  MapDataset(D dataset, Function function)
      : dataset_(std::make_shared<D>(std::move(dataset))), function_(std::move(function)) {}

  std::optional<std::remove_cvref_t<Mapped>> next() {
    if (!reader_) reader_.emplace(dataset_);
    auto sample = reader_->next();
    if (!sample) return std::nullopt;
    return detail::mapped(function_, *std::move(sample));
  }
  void reset() requires kRestartable<D> { reader_.reset(); }

 private:
  std::shared_ptr<D> dataset_;
  Function function_;
  std::optional<SampleReader<D>> reader_;
};

}  // namespace lockstep::data
