// Neighbouring elements that a thread reads or writes at once, up to 16 bytes: what memory is fastest at.
#pragma once

#include <algorithm>
#include <cstdint>

#include <lockstep/core/dtype.h>

namespace lockstep::gpu {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

/// Elements at a time of operands of these types: 16 bytes of the widest.
template <class... T>
inline constexpr int kPackOf = int(16 / std::max({sizeof(T)...}));

template <int kCount, class T>
LOCKSTEP_HD bool is_aligned(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (sizeof(T) * kCount) == 0;
}

}  // namespace lockstep::gpu
