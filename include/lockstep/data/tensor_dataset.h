// TensorDataset: a dataset of the rows of tensors. Safe to read from several threads at once.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

namespace detail {
/// The common leading size of all tensors; throws ShapeError naming the first tensor that differs.
LOCKSTEP_API std::int64_t common_leading_size(std::span<const Tensor> tensors);
/// Returns one row, as a view. Throws InvalidArgument unless 0 <= index < the leading size.
LOCKSTEP_API Tensor row(const Tensor& tensor, std::int64_t index);
/// Returns the rows stacked, as a copy on the same device. Throws as row() does.
LOCKSTEP_API Tensor rows(const Tensor& tensor, std::span<const std::int64_t> indices);
}  // namespace detail

/// Sample i is row i of every tensor: a tuple of rows, or the row itself for a single tensor. Shares the tensors'
/// memory. Final, because loaders would not call the get() of a subclass; use composition instead.
template <std::size_t N>
class TensorDataset final {
  static_assert(N > 0, "a TensorDataset holds at least one tensor");

 public:
  /// Throws ShapeError naming a tensor without dimensions or with another leading size than the first, and
  /// InvalidArgument for an undefined one.
  template <class... Tensors>
  requires(sizeof...(Tensors) == N &&
           (std::convertible_to<Tensors, Tensor> && ...)) explicit TensorDataset(Tensors... tensors)
      : tensors_{std::move(tensors)...}, size_(detail::common_leading_size(tensors_)) {}

  std::int64_t size() const noexcept { return size_; }

  /// Throws InvalidArgument unless 0 <= index < size().
  auto get(std::int64_t index) const {
    return each([&](const Tensor& tensor) { return detail::row(tensor, index); });
  }

  /// The rows of a batch, gathered without a view per row.
  auto get_batch(std::span<const std::int64_t> indices) const {
    return each([&](const Tensor& tensor) { return detail::rows(tensor, indices); });
  }

 private:
  template <class Pick>
  auto each(const Pick& pick) const {
    if constexpr (N == 1) {
      return pick(tensors_[0]);
    } else {
      return std::apply([&](const auto&... tensor) { return std::tuple(pick(tensor)...); }, tensors_);
    }
  }

  std::array<Tensor, N> tensors_;
  std::int64_t size_;
};

/// For a number of tensors known at run time: a sample is a std::vector of rows. Throws InvalidArgument for no tensors.
template <>
class TensorDataset<std::dynamic_extent> final {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors)
      : tensors_(std::move(tensors)), size_(detail::common_leading_size(tensors_)) {}

  std::int64_t size() const noexcept { return size_; }
  std::vector<Tensor> get(std::int64_t index) const {
    std::vector<Tensor> sample;
    for (const Tensor& tensor : tensors_) sample.push_back(detail::row(tensor, index));
    return sample;
  }
  /// The rows of a batch.
  std::vector<Tensor> get_batch(std::span<const std::int64_t> indices) const {
    std::vector<Tensor> batch;
    for (const Tensor& tensor : tensors_) batch.push_back(detail::rows(tensor, indices));
    return batch;
  }

 private:
  std::vector<Tensor> tensors_;
  std::int64_t size_;
};

/// Deduces the number of tensors.
template <class... Tensors>
requires(std::convertible_to<Tensors, Tensor>&&...) TensorDataset(Tensors...)
->TensorDataset<sizeof...(Tensors)>;
TensorDataset(std::vector<Tensor>)->TensorDataset<std::dynamic_extent>;

}  // namespace lockstep::data
