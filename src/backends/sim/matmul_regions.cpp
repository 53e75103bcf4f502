#include "backends/sim/matmul_regions.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kMaxSeparate = 64;

struct Operand {
  const void* data = nullptr;
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::int64_t batch = 1, stride = 0;
  AccessKind kind = AccessKind::read;
};

void append(std::vector<MemoryAccess>& accesses, const Operand& x, std::size_t element_bytes) {
  const auto bytes = [&](std::int64_t elements) { return std::size_t(elements) * element_bytes; };
  const auto add = [&](const void* data, std::size_t row_bytes, std::int64_t rows, std::int64_t pitch) {
    accesses.push_back({{data, row_bytes, std::size_t(rows), bytes(pitch)}, x.kind});
  };
  const bool dense = x.leading == x.columns || x.rows == 1;
  if (x.batch == 1 || x.stride == 0) return add(x.data, bytes(x.columns), x.rows, x.leading);
  if (x.stride == x.rows * x.leading) return add(x.data, bytes(x.columns), x.batch * x.rows, x.leading);
  if (dense) return add(x.data, bytes(x.rows * x.columns), x.batch, x.stride);
  if (x.stride == x.columns && x.leading >= x.batch * x.columns)
    return add(x.data, bytes(x.batch * x.columns), x.rows, x.leading);
  if (std::size_t(x.batch) > kMaxSeparate)
    return add(x.data, bytes((x.rows - 1) * x.leading + x.columns), x.batch, x.stride);
  for (std::int64_t i = 0; i < x.batch; ++i)
    add(static_cast<const std::byte*>(x.data) + bytes(i * x.stride), bytes(x.columns), x.rows, x.leading);
}

}  // namespace

std::vector<MemoryAccess> accesses_of(const Matmul& p) {
  std::vector<MemoryAccess> accesses;
  if (p.m <= 0 || p.n <= 0 || p.batch <= 0) return accesses;
  accesses.reserve(5);
  const std::size_t element_bytes = size_of(p.dtype);
  if (p.k > 0) {
    const std::int64_t a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
    const std::int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
    append(accesses, {p.a, a_rows, a_columns, p.lda, p.batch, p.stride_a, AccessKind::read}, element_bytes);
    append(accesses, {p.b, b_rows, b_columns, p.ldb, p.batch, p.stride_b, AccessKind::read}, element_bytes);
  }
  if (p.bias) append(accesses, {p.bias, 1, p.n, p.n, 1, 0, AccessKind::read}, element_bytes);
  const Operand c = {p.c, p.m, p.n, p.ldc, p.batch, p.stride_c, AccessKind::write};
  if (p.beta != 0) {
    Operand read = c;
    read.kind = AccessKind::read;
    append(accesses, read, element_bytes);
  }
  append(accesses, c, element_bytes);
  return accesses;
}

}  // namespace lockstep::sim
