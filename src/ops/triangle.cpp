#include <lockstep/ops/layout.h>

#include <algorithm>

#include <lockstep/kernels/visit.h>
#include "core/text.h"
#include "cpu/parallel.h"
#include "kernels/launch.h"
#include "ops/record.h"

namespace lockstep {
namespace {

// Row r keeps the columns below r + edge (lower), or from r + edge on (upper).
// T: an integer of the elements' size.
template <class T>
struct Triangle {
  const T* from;
  T* to;
  std::int64_t rows, columns, matrices;
  std::int64_t edge;
  bool lower;

  void operator()(const KernelContext& context) const {
    host::vectorized_for(context, rows * matrices, (1 << 15) / columns + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t split = std::clamp<std::int64_t>(r % rows + edge, 0, columns);
        const std::int64_t kept = lower ? 0 : split, kept_end = lower ? split : columns;
        T* const row = to + r * columns;
        std::fill_n(row, kept, T(0));
        std::copy_n(from + r * columns + kept, kept_end - kept, row + kept);
        std::fill_n(row + kept_end, columns - kept_end, T(0));
      }
    });
  }

  std::int64_t items() const { return matrices * rows * columns; }
  LOCKSTEP_HD void item(std::int64_t i) const {
    to[i] = (i % columns < i / columns % rows + edge) == lower ? from[i] : T(0);
  }
};

Tensor triangle(const char* op, const Tensor& x, std::int64_t diagonal, bool lower) {
  const Shape& sizes = impl_of(op, x).sizes;
  if (sizes.rank() < 2) throw ShapeError(text("[", op, "] expected at least 2 dimensions, got ", sizes));
  Tensor out = make_tensor(*x.impl()->storage->device, sizes, x.dtype());
  const std::int64_t rows = sizes[sizes.rank() - 2], columns = sizes.back();
  const std::int64_t moved = std::clamp(diagonal, -rows, columns);
  const Tensor dense = x.detach().contiguous();
  visit_bits(x.dtype(), [&]<class T>() {
    if (out.numel() == 0) return;
    const Triangle<T> kernel{reinterpret_cast<const T*>(dense.impl()->data()),
                             reinterpret_cast<T*>(out.impl()->data()),
                             rows,
                             columns,
                             out.numel() / (rows * columns),
                             lower ? moved + 1 : moved,
                             lower};
    launch(op, 0, out, std::array{&dense}, kernel);
  });
  if (records(x))
    record(lower ? "Tril" : "Triu", out, {&x},
           [op, diagonal, lower](const Tensor& g) { return Gradients{triangle(op, g, diagonal, lower)}; });
  return out;
}

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) { return triangle("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, std::int64_t diagonal) { return triangle("triu", x, diagonal, false); }

}  // namespace lockstep
