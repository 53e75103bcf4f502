// Dataset: the input of a DataLoader, any type with size() and get(index).
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include <lockstep/core/export.h>

namespace lockstep::data {

/// get(i) returns sample i, for 0 <= i < size(). get() is const and, in a loader with workers, called on several
/// threads at once. Random numbers that it draws (rand(), randn(), ...) depend only on the loader's seed, the epoch and
/// the index. Its GPU work is enqueued on the streams that were current when the loop began.
template <class D>
concept Dataset = std::move_constructible<D> && requires(const D& dataset, std::int64_t index) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
  dataset.get(index);
  requires !std::is_void_v<decltype(dataset.get(index))>;
};

/// The type of a sample: that of get(), by value.
template <Dataset D>
using SampleOf = std::remove_cvref_t<decltype(std::declval<const D&>().get(std::int64_t(0)))>;

/// A dataset that can make a whole batch faster than single samples. The loader calls get_batch() instead of get() and
/// the default collation; the results must be equal. A class that inherits get_batch() must not override get() alone,
/// because the loader would not call its get().
template <class D>
concept BatchDataset = Dataset<D> && requires(const D& dataset, std::span<const std::int64_t> indices) {
  dataset.get_batch(indices);
  requires !std::is_void_v<decltype(dataset.get_batch(indices))>;
};

}  // namespace lockstep::data
