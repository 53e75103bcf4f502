// Repeats by broadcasting along a new dimension, which is then merged with a neighbour: views, and one copy.
#include <lockstep/ops/layout.h>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

// `x` broadcast along a new dimension of size `count` before `dim`.
Tensor broadcast_new_dim(const Tensor& x, int dim, std::int64_t count) {
  const Tensor single = x.unsqueeze(dim);
  Shape sizes = single.sizes();
  sizes[dim] = count;
  return single.expand(sizes);
}

std::int64_t times(const char* op, std::int64_t size, std::int64_t count) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(size, count, &product))
    throw ShapeError(text("[", op, "] expected a size that fits 64 bits, got ", size, " times ", count));
  return product;
}

// `x` with the dimensions before `dim` merged into one, and the rest into another.
Tensor flatten_to_2d(const Tensor& x, const Shape& sizes, int dim) {
  std::int64_t before = 1, after = 1;
  for (int i = 0; i < sizes.rank(); ++i) (i < dim ? before : after) *= sizes[i];
  return x.reshape({before, after});
}

// Returns `result`, contiguous; a copy if it shares x's memory, since writes to repeat()'s result must not change x.
Tensor ensure_copy(const Tensor& result, const Tensor& x) {
  return result.impl()->storage == x.impl()->storage ? result.clone() : result.contiguous();
}

}  // namespace

Tensor repeat(const Tensor& x, const Shape& repeats) {
  const int rank = repeats.rank(), extra = rank - impl_of("repeat", x).sizes.rank();
  bool fits = extra >= 0;
  for (const std::int64_t count : repeats) fits = fits && count >= 0;
  if (!fits) throw ShapeError(text("[repeat] expected at least ", x.dim(), " counts of at least 0, got ", repeats));
  Shape sizes = Shape::filled(rank, 1);
  for (int i = extra; i < rank; ++i) sizes[i] = x.sizes()[i - extra];
  Shape repeated = sizes;
  for (int i = 0; i < rank; ++i) repeated[i] = times("repeat", sizes[i], repeats[i]);
  checked_elements("repeat", repeated);
  Tensor result = x.reshape(sizes);
  for (int i = rank - 1; i >= 0; --i) {
    const Shape before = sizes;
    sizes[i] = repeated[i];
    if (repeats[i] == 1) continue;
    if (result.dim() < Shape::kMaxRank)
      result = broadcast_new_dim(result, i, repeats[i]);
    else  // the maximum rank is reached
      result = broadcast_new_dim(flatten_to_2d(result, before, i), 1, repeats[i]).reshape(sizes);
  }
  return ensure_copy(result.reshape(sizes), x);
}

Tensor tile(const Tensor& x, const Shape& repeats) {
  Shape counts = repeats;
  for (int missing = impl_of("tile", x).sizes.rank() - repeats.rank(); missing > 0; --missing) counts.insert(0, 1);
  return repeat(x, counts);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t dim) {
  const int d = wrap_dim("repeat_interleave", dim, impl_of("repeat_interleave", x).sizes.rank());
  if (repeats < 0 || x.dim() == 0)
    throw ShapeError(
        text("[repeat_interleave] expected a count of at least 0 and a tensor of at least one dimension, got ", repeats,
             " and ", x.sizes()));
  Shape sizes = x.sizes();
  sizes[d] = times("repeat_interleave", sizes[d], repeats);
  checked_elements("repeat_interleave", sizes);
  return ensure_copy(broadcast_new_dim(flatten_to_2d(x, x.sizes(), d + 1), 1, repeats).reshape(sizes), x);
}

}  // namespace lockstep
