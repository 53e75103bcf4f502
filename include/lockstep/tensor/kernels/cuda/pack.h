// Neighbouring elements that a thread reads or writes at once, up to 16 bytes: what memory is fastest at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

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

/// Calls visit(0), ..., visit(kCount - 1), each with a constant: what is indexed by it stays in registers. (nvcc
/// unrolls most short loops by itself, not all; what is indexed in a loop then lies in memory.)
template <int kCount, class Visit>
LOCKSTEP_HD void unrolled(const Visit& visit) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (visit(I), ...); }
  (std::make_integer_sequence<int, kCount>());
}

}  // namespace lockstep::gpu
