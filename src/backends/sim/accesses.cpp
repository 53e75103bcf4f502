#include "backends/sim/accesses.h"

#include <utility>

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

// An operand's dimensions, the largest stride first. Neighbours that are contiguous are merged; dimensions of size 1 or
// stride 0 are omitted.
struct Walk {
  Shape sizes, strides;
};

Walk walk_of(const FusedOperand& operand) {
  Walk sorted;
  for (int i = 0; i < operand.sizes.rank(); ++i) {
    if (operand.sizes[i] == 1 || operand.strides[i] == 0) continue;
    sorted.sizes.push_back(operand.sizes[i]);
    sorted.strides.push_back(operand.strides[i]);
    for (int k = sorted.sizes.rank() - 1; k > 0 && sorted.strides[k] > sorted.strides[k - 1]; --k) {
      std::swap(sorted.sizes[k], sorted.sizes[k - 1]);
      std::swap(sorted.strides[k], sorted.strides[k - 1]);
    }
  }
  Walk merged;
  for (int i = 0; i < sorted.sizes.rank(); ++i) {
    const int last = merged.sizes.rank() - 1;
    if (last >= 0 && merged.strides[last] == sorted.strides[i] * sorted.sizes[i]) {
      merged.sizes[last] *= sorted.sizes[i];
      merged.strides[last] = sorted.strides[i];
    } else {
      merged.sizes.push_back(sorted.sizes[i]);
      merged.strides.push_back(sorted.strides[i]);
    }
  }
  return merged;
}

Region region_of(const FusedOperand& operand) {
  const std::size_t element = size_of(operand.dtype);
  if (operand.sizes.elements() == 0) return {operand.data, 0, 0, 0};
  const auto bytes = [element](std::int64_t elements) { return std::size_t(elements) * element; };
  const auto [sizes, strides] = walk_of(operand);
  if (sizes.empty()) return {operand.data, element, 1, element};
  const int last = sizes.rank() - 1;
  if (last == 0 && strides[0] == 1) return {operand.data, bytes(sizes[0]), 1, bytes(sizes[0])};
  if (last == 0) return {operand.data, element, std::size_t(sizes[0]), bytes(strides[0])};
  if (last == 1 && strides[1] == 1 && strides[0] >= sizes[1])
    return {operand.data, bytes(sizes[1]), std::size_t(sizes[0]), bytes(strides[0])};
  std::int64_t end = 1;
  for (int i = 0; i <= last; ++i) end += (sizes[i] - 1) * strides[i];
  return {operand.data, bytes(end), 1, bytes(end)};
}

}  // namespace

std::vector<MemoryAccess> accesses_of(const Matmul& p) {
  std::vector<MemoryAccess> accesses;
  if (p.m <= 0 || p.n <= 0 || p.batch <= 0) return accesses;
  accesses.reserve(5);
  const std::size_t element_bytes = size_of(p.dtype), output_bytes = size_of(p.output());
  if (p.k > 0) {
    const std::int64_t a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
    const std::int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
    append(accesses, {p.a, a_rows, a_columns, p.lda, p.batch, p.stride_a, AccessKind::read}, element_bytes);
    append(accesses, {p.b, b_rows, b_columns, p.ldb, p.batch, p.stride_b, AccessKind::read}, element_bytes);
  }
  if (p.bias) append(accesses, {p.bias, 1, p.n, p.n, 1, 0, AccessKind::read}, output_bytes);
  const Operand c = {p.c, p.m, p.n, p.ldc, p.batch, p.stride_c, AccessKind::write};
  if (p.beta != 0) {
    Operand read = c;
    read.kind = AccessKind::read;
    append(accesses, read, output_bytes);
  }
  append(accesses, c, output_bytes);
  return accesses;
}

std::vector<MemoryAccess> accesses_of(const FusedOp& op, void* workspace, std::size_t workspace_bytes) {
  std::vector<MemoryAccess> accesses;
  for (const FusedOperand& operand : op.operands)
    if (operand.present)
      accesses.push_back({region_of(operand), operand.written ? AccessKind::write : AccessKind::read});
  if (workspace_bytes) accesses.push_back({{workspace, workspace_bytes, 1, workspace_bytes}, AccessKind::write});
  return accesses;
}

}  // namespace lockstep::sim
