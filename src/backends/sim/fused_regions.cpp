#include "backends/sim/fused_regions.h"

#include <utility>

namespace lockstep::sim {
namespace {

// Dimensions in the order of memory: the largest stride first, contiguous ones merged, expanded ones omitted.
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

std::vector<MemoryAccess> accesses_of(const FusedOp& op, void* workspace, std::size_t workspace_bytes) {
  std::vector<MemoryAccess> accesses;
  for (const FusedOperand& operand : op.operands)
    if (operand.present)
      accesses.push_back({region_of(operand), operand.written ? AccessKind::write : AccessKind::read});
  if (workspace_bytes) accesses.push_back({{workspace, workspace_bytes, 1, workspace_bytes}, AccessKind::write});
  return accesses;
}

}  // namespace lockstep::sim
