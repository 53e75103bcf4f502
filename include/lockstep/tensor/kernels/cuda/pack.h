// Neighbouring elements that a thread reads or writes at once, up to 16 bytes: what memory is fastest at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
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

/// Of an emulated GPU, which throws where a GPU faults.
template <int kCount, class T>
void check_aligned([[maybe_unused]] const T* data) {
#ifdef LOCKSTEP_CUDA_EMULATED
  if (!is_aligned<kCount>(data)) throw std::logic_error("a pack in memory that is not aligned to it");
#endif
}

// The only two places where memory is accessed as packs. A GPU takes one instruction, which faults where memory is not
// aligned to the whole pack: ask is_aligned() first. A kernel's host form copies bytes, wherever they lie. (GCC takes
// an access to an aligned type as a promise on the pointer, which holds beside the branch with the access too.)
template <int kCount, class T>
LOCKSTEP_HD Pack<T, kCount> load_pack(const T* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
#else
  check_aligned<kCount>(from);
  Pack<T, kCount> pack;
  std::memcpy(pack.values, from, sizeof pack);
  return pack;
#endif
}
template <int kCount, class T>
LOCKSTEP_HD void store_pack(T* to, const Pack<T, kCount>& pack) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
#else
  check_aligned<kCount>(to);
  std::memcpy(to, pack.values, sizeof pack);
#endif
}

/// Calls visit(0), ..., visit(kCount - 1), each with a constant: what is indexed by it stays in registers. (nvcc
/// unrolls most short loops by itself, not all; what is indexed in a loop then lies in memory.)
template <int kCount, class Visit>
LOCKSTEP_HD void unrolled(const Visit& visit) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (visit(I), ...); }
  (std::make_integer_sequence<int, kCount>());
}

}  // namespace lockstep::gpu
