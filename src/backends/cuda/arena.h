// Arena: hands out parts of one large allocation, as offsets: first fit, with merging of free neighbours. Only the
// caching allocator takes parts, for its segments, so there are few. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace lockstep::gpu {

class Arena {
 public:
  explicit Arena(std::size_t bytes) { free_[0] = bytes; }

  /// Returns the offset of `bytes` free bytes, a multiple of 512; nullopt if there is no room.
  std::optional<std::size_t> take(std::size_t bytes);
  void give(std::size_t offset, std::size_t bytes);

 private:
  std::map<std::size_t, std::size_t> free_;  // offset of a free range -> its bytes
};

}  // namespace lockstep::gpu
