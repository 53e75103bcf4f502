// Matrix products on the host, divided between cores (oneTBB). The division does not change the bits of the result: see
// blocked_product.h.
#include <lockstep/runtime/threads.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>

#include "cpu/library_use.h"
#include "cpu/parallel.h"
#include "cpu/products/bfloat16_product.h"
#include "cpu/products/blocked_product.h"
#include "cpu/products/tiles.h"

namespace lockstep::host {
namespace {

// A piece with fewer multiplications than this is not worth a thread.
constexpr std::int64_t kParallelProduct = std::int64_t(1) << 18;

std::int64_t pieces_of(std::int64_t whole, std::int64_t piece) { return (whole + piece - 1) / piece; }

// The part of an operand that begins there. A product without terms has none: its operands may be null.
template <class T>
const T* part_of(const Matmul& p, const T* operand, std::int64_t at) {
  return p.k == 0 ? operand : operand + at;
}

// The division of one product into pieces, each with some rows of a and some columns of b.
struct Division {
  std::int64_t rows, columns;  // of a piece
  std::int64_t across;         // pieces from the left edge to the right
  std::int64_t count;

  // Makes at most `most` pieces. Minimizes the time of the largest piece, including the packing of its columns of b.
  Division(const Matmul& p, std::int64_t most) : rows(p.m), columns(p.n), across(1), count(1) {
    constexpr std::int64_t kColumns = 16, kPacking = 10;  // packing b costs as much as kPacking more rows
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t down = 1; down <= most; ++down) {
      const std::int64_t r = pieces_of(pieces_of(p.m, down), kTileRows) * kTileRows;
      const std::int64_t c = pieces_of(pieces_of(p.n, most / down), kColumns) * kColumns;
      const std::int64_t cost = (r + kPacking) * c;
      if (cost >= least) continue;
      least = cost;
      rows = r;
      columns = c;
      across = pieces_of(p.n, c);
      count = pieces_of(p.m, r) * across;
    }
  }
};

template <class T>
void run_piece(const Matmul& p, const Division& division, std::int64_t index, const T* a, const T* b, T* c,
               const T* bias) {
  const std::int64_t row = index / division.across * division.rows;
  const std::int64_t column = index % division.across * division.columns;
  Matmul piece = p;
  piece.m = std::min(division.rows, p.m - row);
  piece.n = std::min(division.columns, p.n - column);
  blocked_product<T>(piece, part_of(p, a, row * (p.transpose_a ? 1 : p.lda)),
                     part_of(p, b, column * (p.transpose_b ? p.ldb : 1)), c + row * p.ldc + column,
                     bias ? bias + column : nullptr);
}

// Returns the batch as one product if all its products share b, and their matrices a and c lie one below the other;
// else returns p unchanged.
Matmul joined(Matmul p) {
  if (p.batch > 1 && p.stride_b == 0 && !p.transpose_a && p.stride_a == p.m * p.lda && p.stride_c == p.m * p.ldc) {
    p.m *= p.batch;
    p.batch = 1;
  }
  return p;
}

template <class T>
void typed(const KernelContext& context, const Matmul& given) {
  const Matmul p = joined(given);
  const auto* a = static_cast<const T*>(p.a);
  const auto* b = static_cast<const T*>(p.b);
  auto* c = static_cast<T*>(p.c);
  const auto* bias = static_cast<const T*>(p.bias);
  const std::int64_t multiplications = std::max<std::int64_t>(1, p.m * p.n * p.k);
  if (!context.parallel || multiplications * p.batch < kParallelProduct) {
    for (std::int64_t i = 0; i < p.batch; ++i)
      blocked_product<T>(p, part_of(p, a, i * p.stride_a), part_of(p, b, i * p.stride_b), c + i * p.stride_c, bias);
    return;
  }
  const std::int64_t cores = num_threads();
  // Pieces are whole matrices if this keeps the cores about equally busy.
  const bool whole = pieces_of(p.batch, cores) * cores * 8 <= p.batch * 9;
  const Division division(p, whole ? 1 : std::min(cores, pieces_of(multiplications, kParallelProduct)));
  const std::int64_t count = p.batch * division.count;
  const std::int64_t grain =
      p.batch == 1 ? 1 : std::max<std::int64_t>(1, kParallelProduct / (multiplications / division.count + 1));
  parallel_for(context, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t item = i / division.count;
      run_piece<T>(p, division, i % division.count, part_of(p, a, item * p.stride_a), part_of(p, b, item * p.stride_b),
                   c + item * p.stride_c, bias);
    }
  });
}

// Converts a matrix to float, with contiguous rows.
template <class Narrow>
std::unique_ptr<float[]> widened(const KernelContext& context, const Narrow* from, std::int64_t rows,
                                 std::int64_t columns, std::int64_t pitch) {
  auto wide = std::make_unique_for_overwrite<float[]>(std::size_t(rows * columns));
  const std::int64_t grain = (1 << 15) / std::max<std::int64_t>(columns, 1) + 1;
  parallel_for(context, rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < columns; ++j) wide[std::size_t(i * columns + j)] = float(from[i * pitch + j]);
  });
  return wide;
}

// Computes products of 16-bit types in float: converts all of b, and some rows of a and c at a time. Out: the type of c
// and bias.
template <class Narrow, class Out>
void narrow_typed(const KernelContext& context, const Matmul& given) {
  const Matmul p = joined(given);
  if constexpr (std::is_same_v<Narrow, BFloat16>) {
    if (bfloat16_product(context, p)) return;
  }
  constexpr std::int64_t kElements = 1 << 18, kMinRows = 64, kMaxRows = 256;  // parts of a and c converted at a time
  const std::int64_t height = std::clamp(kElements / std::max<std::int64_t>({p.n, p.k, 1}), kMinRows, kMaxRows);
  const std::int64_t cores = context.parallel ? num_threads() : 1;
  const std::int64_t grain = std::max(pieces_of(pieces_of(p.m, cores), kTileRows) * kTileRows,
                                      kParallelProduct / std::max<std::int64_t>(1, p.n * p.k));
  const auto bias = p.bias ? widened(context, static_cast<const Out*>(p.bias), 1, p.n, p.n) : nullptr;
  const std::int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
  for (std::int64_t item = 0; item < p.batch; ++item) {
    const auto* const a = part_of(p, static_cast<const Narrow*>(p.a), item * p.stride_a);
    const auto* const b = part_of(p, static_cast<const Narrow*>(p.b), item * p.stride_b);
    auto* const c = static_cast<Out*>(p.c) + item * p.stride_c;
    const auto wide_b = widened(context, b, b_rows, b_columns, p.ldb);
    const auto rows_of = [&](std::int64_t row, std::int64_t rows) {
      const Narrow* const rows_of_a = part_of(p, a, row * (p.transpose_a ? 1 : p.lda));
      const auto wide_a =
          p.transpose_a ? widened({}, rows_of_a, p.k, rows, p.lda) : widened({}, rows_of_a, rows, p.k, p.lda);
      Out* const to = c + row * p.ldc;
      Matmul wide = p;
      wide.m = rows;
      wide.lda = p.transpose_a ? rows : p.k;
      wide.ldb = b_columns;
      if constexpr (std::is_same_v<Out, float>)
        return blocked_product<float>(wide, wide_a.get(), wide_b.get(), to, bias.get());
      const auto wide_c = p.beta == 0 ? std::make_unique_for_overwrite<float[]>(std::size_t(rows * p.n))
                                      : widened({}, to, rows, p.n, p.ldc);
      wide.ldc = p.n;
      blocked_product<float>(wide, wide_a.get(), wide_b.get(), wide_c.get(), bias.get());
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) to[i * p.ldc + j] = Out(wide_c[std::size_t(i * p.n + j)]);
    };
    parallel_for(context, pieces_of(p.m, grain), 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t last = std::min(p.m, end * grain);
      for (std::int64_t row = begin * grain; row < last; row += height) rows_of(row, std::min(height, last - row));
    });
  }
}

}  // namespace

void matmul_piece(const Matmul& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.dtype == kFloat32)
    blocked_product(p, static_cast<const float*>(p.a), static_cast<const float*>(p.b), static_cast<float*>(p.c),
                    static_cast<const float*>(p.bias));
  else
    blocked_product(p, static_cast<const double*>(p.a), static_cast<const double*>(p.b), static_cast<double*>(p.c),
                    static_cast<const double*>(p.bias));
}

void matmul(const KernelContext& context, const Matmul& p) {
  if (p.m == 0 || p.n == 0) return;
  const LibraryUse use;  // blocks if the process is ending
  switch (p.dtype) {
    case kFloat32: return typed<float>(context, p);
    case kFloat64: return typed<double>(context, p);
    case kFloat16:
      return p.float32_output ? narrow_typed<Half, float>(context, p) : narrow_typed<Half, Half>(context, p);
    default:
      return p.float32_output ? narrow_typed<BFloat16, float>(context, p)
                              : narrow_typed<BFloat16, BFloat16>(context, p);
  }
}

}  // namespace lockstep::host
