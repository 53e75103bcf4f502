// Places in a range of memory taken once: first fit, neighbours merged. What it hands out is segments of the caching
// allocator, so there are few. Knows offsets only; not safe from several threads.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace lockstep::gpu {

class Arena {
 public:
  explicit Arena(std::size_t bytes) { free_[0] = bytes; }

  /// The offset of `bytes`, a multiple of 512; nothing if there is no room.
  std::optional<std::size_t> take(std::size_t bytes);
  void give(std::size_t offset, std::size_t bytes);

 private:
  std::map<std::size_t, std::size_t> free_;  // bytes by offset
};

}  // namespace lockstep::gpu
