#include "backends/cuda/arena.h"

#include <iterator>

namespace lockstep::gpu {
namespace {

constexpr std::size_t rounded(std::size_t bytes) { return (bytes + 511) & ~std::size_t(511); }

}  // namespace

std::optional<std::size_t> Arena::take(std::size_t bytes) {
  bytes = rounded(bytes);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [offset, room] = *range;
    if (room < bytes) continue;
    free_.erase(range);
    if (room > bytes) free_[offset + bytes] = room - bytes;
    return offset;
  }
  return std::nullopt;
}

void Arena::give(std::size_t offset, std::size_t bytes) {
  auto range = free_.emplace(offset, rounded(bytes)).first;
  if (const auto after = std::next(range); after != free_.end() && range->first + range->second == after->first) {
    range->second += after->second;
    free_.erase(after);
  }
  if (range == free_.begin()) return;
  if (const auto before = std::prev(range); before->first + before->second == range->first) {
    before->second += range->second;
    free_.erase(range);
  }
}

}  // namespace lockstep::gpu
