// Dataset: what a DataLoader reads. Any type with size() and get(index) is one.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

namespace lockstep::data {

/// size() samples, the i-th of which is get(i) for 0 <= i < size(). get() is const and, in a loader with workers,
/// called on several threads at once. Random numbers that it draws (rand() and its kin) depend on the loader's seed,
/// the epoch and the index alone. Work on a GPU goes to the streams that were current when the
/// loop began.
template <class D>
concept Dataset = std::move_constructible<D> && requires(const D& dataset, std::int64_t index) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
  dataset.get(index);
  requires !std::is_void_v<decltype(dataset.get(index))>;
};

/// What get() gives, by value.
template <Dataset D>
using SampleOf = std::remove_cvref_t<decltype(std::declval<const D&>().get(std::int64_t(0)))>;

/// A dataset that can make a batch of several samples faster than one by one. The loader then calls get_batch()
/// in place of get() and the default collation, whose result it must equal. A class that inherits get_batch() must
/// not change get() alone: the loader would not call it.
template <class D>
concept BatchDataset = Dataset<D> && requires(const D& dataset, std::span<const std::int64_t> indices) {
  dataset.get_batch(indices);
  requires !std::is_void_v<decltype(dataset.get_batch(indices))>;
};

}  // namespace lockstep::data
