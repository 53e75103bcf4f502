// Packs: neighbouring elements, up to 16 bytes, that a thread reads or writes with one instruction, for full memory
// bandwidth.
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

/// Elements of a pack for operands of these types: 16 bytes of the widest type.
template <class... T>
inline constexpr int kPackOf = int(16 / std::max({sizeof(T)...}));

template <int kCount, class T>
LOCKSTEP_HD bool is_aligned(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (sizeof(T) * kCount) == 0;
}

/// Throws on an emulated GPU if `data` is not aligned to a pack: a GPU would fault there.
template <int kCount, class T>
void check_aligned([[maybe_unused]] const T* data) {
#ifdef LOCKSTEP_CUDA_EMULATED
  if (!is_aligned<kCount>(data)) throw std::logic_error("a pack is read or written at an address not aligned to it");
#endif
}

// Only these two functions access memory as packs. A GPU uses one instruction, which faults unless memory is aligned to
// the whole pack, so check is_aligned() first. The host form copies bytes: if it accessed an aligned type through the
// pointer, even in one branch, GCC would assume that the pointer is aligned everywhere.
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

/// Calls visit(0), ..., visit(kCount - 1), each with a constant, so that arrays indexed by it stay in registers. (nvcc
/// does not unroll all short loops by itself; arrays indexed in a loop that is not unrolled are in local memory.)
template <int kCount, class Visit>
LOCKSTEP_HD void unrolled(const Visit& visit) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (visit(I), ...); }
  (std::make_integer_sequence<int, kCount>());
}

}  // namespace lockstep::gpu
