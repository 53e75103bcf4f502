#include <lockstep/core/shape.h>

#include <algorithm>
#include <ostream>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {
namespace {

void check_rank(std::size_t rank) {
  if (rank > std::size_t(Shape::kMaxRank))
    throw ShapeError(text("[shape] expected at most ", Shape::kMaxRank, " dimensions, got ", rank));
}

void check_place(const char* op, int dim, int last) {
  if (dim < 0 || dim > last) throw ShapeError(text("[", op, "] expected an index from 0 to ", last, ", got ", dim));
}

}  // namespace

Shape::Shape(std::span<const std::int64_t> sizes) {
  check_rank(sizes.size());
  rank_ = std::int64_t(sizes.size());
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

Shape Shape::filled(int rank, std::int64_t size) {
  check_rank(std::size_t(rank));
  Shape shape;
  shape.rank_ = rank;
  std::fill_n(shape.sizes_.begin(), rank, size);
  return shape;
}

void Shape::insert(int dim, std::int64_t size) {
  check_rank(std::size_t(rank_) + 1);
  check_place("insert", dim, rank());
  std::copy_backward(sizes_.begin() + dim, sizes_.begin() + rank_, sizes_.begin() + rank_ + 1);
  sizes_[dim] = size;
  ++rank_;
}

void Shape::erase(int dim) {
  check_place("erase", dim, rank() - 1);
  std::copy(sizes_.begin() + dim + 1, sizes_.begin() + rank_, sizes_.begin() + dim);
  --rank_;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? ", " : "") << shape[i];
  return out << ']';
}

std::int64_t checked_elements(const char* op, const Shape& sizes) {
  std::int64_t product = 1;
  bool none = false;
  for (const std::int64_t size : sizes) {
    none = none || size == 0;
    if (size < 0 || (size != 0 && __builtin_mul_overflow(product, size, &product)))
      throw ShapeError(text("[", op, "] expected sizes of at least 0 whose product fits 64 bits, got ", sizes));
  }
  return none ? 0 : product;
}

Shape contiguous_strides(const Shape& sizes) noexcept {
  Shape strides = sizes;
  std::int64_t stride = 1;
  for (int i = sizes.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  const int offset = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = longer[offset + i], y = shorter[i];
    if (x != y && x != 1 && y != 1)
      throw ShapeError(text("[", op, "] expected shapes that broadcast, got ", a, " and ", b));
    result[offset + i] = x == 1 ? y : x;
  }
  return result;
}

int wrap_dim(const char* op, std::int64_t dim, int rank) {
  const int bound = std::max(rank, 1);  // a 0-dim tensor accepts dim 0 and -1
  if (dim < -bound || dim >= bound)
    throw ShapeError(text("[", op, "] expected a dimension in [", -bound, ", ", bound - 1, "], got ", dim));
  return int(dim < 0 ? dim + bound : dim);
}

}  // namespace lockstep
