// Shapes and strides: up to eight dimensions, stored inline, so that a tensor needs no second allocation.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <vector>

#include <lockstep/core/export.h>

namespace lockstep {

/// The sizes (or strides, in elements) of a tensor's dimensions.
class LOCKSTEP_API Shape {
 public:
  static constexpr int kMaxRank = 8;  ///< The most dimensions that a tensor has.

  Shape() = default;
  /// Throws ShapeError for more than kMaxRank dimensions.
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes);
  Shape(const std::vector<std::int64_t>& sizes) : Shape(std::span(sizes)) {}
  /// One dimension: sum(x, 1), zeros(5), x.view(-1).
  template <std::integral Size>
  requires(!std::same_as<Size, bool>) Shape(Size size) : rank_(1) { sizes_[0] = std::int64_t(size); }
  /// `rank` dimensions of `size` each.
  static Shape filled(int rank, std::int64_t size);

  constexpr int rank() const noexcept { return int(rank_); }  ///< The number of dimensions.
  constexpr bool empty() const noexcept { return rank_ == 0; }
  /// Unchecked: 0 <= dim < rank().
  constexpr std::int64_t operator[](int dim) const noexcept { return sizes_.data()[dim]; }
  constexpr std::int64_t& operator[](int dim) noexcept { return sizes_.data()[dim]; }
  constexpr const std::int64_t* begin() const noexcept { return sizes_.data(); }
  constexpr const std::int64_t* end() const noexcept { return sizes_.data() + rank_; }
  std::size_t size() const noexcept { return std::size_t(rank_); }             ///< rank(), under a container's name.
  std::vector<std::int64_t> vec() const { return {begin(), end()}; }           ///< As a vector.
  constexpr std::int64_t back() const noexcept { return begin()[rank_ - 1]; }  ///< Unchecked: the last size.

  /// push_back, insert and erase throw ShapeError past kMaxRank dimensions, and for a position out of range.
  void push_back(std::int64_t size) {
    if (rank_ == kMaxRank) return insert(kMaxRank, size);
    sizes_[std::size_t(rank_++)] = size;
  }
  void insert(int dim, std::int64_t size);  ///< Throws ShapeError for one dimension too many.
  void erase(int dim);                      ///< Removes a dimension.

  /// The product of the sizes; 1 for no dimensions.
  std::int64_t elements() const noexcept {
    std::int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= begin()[i];
    return product;
  }

  bool operator==(const Shape& other) const noexcept {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if (begin()[i] != other.begin()[i]) return false;
    return true;
  }

 private:
  std::int64_t rank_ = 0;
  std::array<std::int64_t, kMaxRank> sizes_ = {};  // elements past the rank are zeros or stale values
};

/// Prints [2, 3].
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// The product of the sizes. Throws ShapeError naming `op` if a size is negative, or if the product of the nonzero
/// sizes does not fit 64 bits.
LOCKSTEP_API std::int64_t checked_elements(const char* op, const Shape& sizes);

/// Strides of a dense row-major tensor.
LOCKSTEP_API Shape contiguous_strides(const Shape& sizes) noexcept;

/// The shape to which a and b broadcast. Throws ShapeError naming `op` and both shapes if they do not broadcast.
LOCKSTEP_API Shape broadcast(const char* op, const Shape& a, const Shape& b);

/// `dim` counted from the front. Throws ShapeError naming `op` unless -rank <= dim < rank.
LOCKSTEP_API int wrap_dim(const char* op, std::int64_t dim, int rank);

}  // namespace lockstep
