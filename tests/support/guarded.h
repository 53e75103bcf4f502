// Memory with guard bytes around it, which reveal out-of-bounds writes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace lockstep::testing {

/// Guard bytes are 0xff, a NaN as floats. The memory itself is also filled with them.
class Guarded {
 public:
  static constexpr std::size_t kGuard = 16 << 10, kLine = 64;

  /// `count` parts of `bytes` each, with a guard before each and after the last. Each part begins `offset` bytes after
  /// a cache line's start.
  Guarded(std::size_t bytes, std::int64_t count = 1, std::size_t offset = 0)
      : bytes_(bytes),
        count_(std::size_t(count)),
        offset_(offset),
        pitch_((bytes + offset + kGuard + kLine - 1) / kLine * kLine),
        size_(kGuard + pitch_ * count_ + kGuard),
        data_(static_cast<std::byte*>(::operator new(size_, std::align_val_t(kLine)))) {
    std::memset(data_.get(), 0xff, size_);
  }

  std::byte* data() const { return data_.get() + kGuard + offset_; }
  float* floats() const { return reinterpret_cast<float*>(data()); }
  std::size_t pitch() const { return pitch_; }

  bool intact() const {
    const std::byte* from = data_.get();
    for (std::size_t i = 0; i < count_; ++i) {
      const std::byte* const part = data() + i * pitch_;
      if (!is_guard(from, part)) return false;
      from = part + bytes_;
    }
    return is_guard(from, data_.get() + size_);
  }

 private:
  static bool is_guard(const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte b) { return b == std::byte(0xff); });
  }
  struct Free {
    void operator()(std::byte* data) const { ::operator delete(data, std::align_val_t(kLine)); }
  };

  std::size_t bytes_, count_, offset_, pitch_, size_;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace lockstep::testing
