#include <lockstep/ops/layout.h>

#include <algorithm>
#include <cstring>

#include "autograd/node.h"
#include "core/text.h"
#include "runtime/host/parallel.h"
#include "tensor/kernels/launch.h"

namespace lockstep {
namespace {

// Row r keeps the columns before (lower) or from (upper) r + edge on.
struct Triangle {
  const std::byte* from;
  std::byte* to;
  std::int64_t rows, columns, matrices;
  std::size_t element_bytes;
  std::int64_t edge;
  bool lower;

  void operator()(const KernelContext& context) const {
    const std::size_t row_bytes = std::size_t(columns) * element_bytes;
    host::parallel_for(context, rows * matrices, (1 << 15) / columns + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::size_t split = std::size_t(std::clamp<std::int64_t>(r % rows + edge, 0, columns)) * element_bytes;
        const std::size_t kept = lower ? 0 : split, kept_end = lower ? split : row_bytes;
        std::byte* const row = to + std::size_t(r) * row_bytes;
        std::memset(row, 0, kept);
        std::memcpy(row + kept, from + std::size_t(r) * row_bytes + kept, kept_end - kept);
        std::memset(row + kept_end, 0, row_bytes - kept_end);
      }
    });
  }
};

Tensor triangle(const char* op, const Tensor& x, std::int64_t diagonal, bool lower) {
  const Shape& sizes = impl_of(op, x).sizes;
  if (sizes.rank() < 2) throw ShapeError(text("[", op, "] expected at least 2 dimensions, got ", sizes));
  Tensor out = make_tensor(*x.impl()->storage->device, sizes, x.dtype());
  if (out.numel() == 0) return out;
  const std::int64_t rows = sizes[sizes.rank() - 2], columns = sizes.back();
  const std::int64_t moved = std::clamp(diagonal, -rows, columns);
  const Tensor dense = x.detach().contiguous();
  const Triangle kernel{dense.impl()->data(), out.impl()->data(),        rows, columns, out.numel() / (rows * columns),
                        size_of(x.dtype()),   lower ? moved + 1 : moved, lower};
  launch(op, 0, out, std::array{&dense}, kernel);
  if (autograd::records(x))
    autograd::record(lower ? "Tril" : "Triu", out, {&x}, [op, diagonal, lower](const Tensor& g) {
      return autograd::Gradients{triangle(op, g, diagonal, lower)};
    });
  return out;
}

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) { return triangle("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, std::int64_t diagonal) { return triangle("triu", x, diagonal, false); }

}  // namespace lockstep
