// The tensor cores' instructions for 16-bit floats: loads of 8x8 matrices from shared memory, and products whose sums
// are floats. A warp executes them together. Also asynchronous copies to shared memory. NVIDIA's PTX ISA, "ldmatrix",
// "Matrix fragments for mma.m16n8k16" and "cp.async". They need compute capability 8.0. In tests the emulator executes
// them.
//
// In a fragment, lane i of the warp has rows i / 4 and i / 4 + 8 and columns 2 (i % 4) and 2 (i % 4) + 1 of each 8
// columns. For the second factor, rows and columns are swapped.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <lockstep/core/float16.h>

namespace lockstep::gpu::flash {

/// Loads four 8x8 matrices of 16-bit elements. `row` is in shared memory, aligned to 16 bytes: lane i has the address
/// of row i % 8 of matrix i / 8. If transposed, lanes get elements as if the rows were columns.
template <bool kTransposed, class T>
__device__ inline void load_matrices(std::uint32_t (&to)[4], const T* row) {
#ifdef LOCKSTEP_CUDA_EMULATED
  emulation::load_matrices<kTransposed>(to, row);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto address = std::uint32_t(__cvta_generic_to_shared(row));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
#else
  __trap();
#endif
}

/// sums [16, 8] += a [16, 16] b [16, 8], for elements of type T (Half or BFloat16). b0 and b1 are the upper and the
/// lower half of b.
template <class T>
__device__ inline void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
#ifdef LOCKSTEP_CUDA_EMULATED
  emulation::multiply_add<T>(sums, a, b0, b1);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, Half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  __trap();
#endif
}

/// Begins to copy 16 bytes from global to shared memory, both aligned to 16 bytes; or, unless `exists`, to write zeros
/// without reading `from`. The bytes are there after finish_copies(), for this thread.
template <class T>
__device__ inline void begin_copy(T* to, const T* from, bool exists) {
#ifdef LOCKSTEP_CUDA_EMULATED
  emulation::begin_copy(to, from, exists);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto address = std::uint32_t(__cvta_generic_to_shared(to));
  const int bytes = exists ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(address), "l"(from), "r"(bytes) : "memory");
#else
  __trap();
#endif
}
__device__ inline void finish_copies() {
#ifdef LOCKSTEP_CUDA_EMULATED
  emulation::finish_copies();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

/// Two floats, rounded, in one register: `low` first in memory.
template <class T>
__device__ inline std::uint32_t packed_pair(float low, float high) {
  return std::uint32_t(T(low).bits()) | std::uint32_t(T(high).bits()) << 16;
}
/// Stores a pair at an address that is aligned to 4 bytes.
template <class T>
__device__ inline void store_pair(T* to, std::uint32_t pair) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<std::uint32_t*>(to) = pair;
#else
  std::memcpy(static_cast<void*>(to), &pair, sizeof pair);
#endif
}
template <class T>
__device__ inline float low_of(std::uint32_t pair) {
  return float(T::from_bits(std::uint16_t(pair)));
}
template <class T>
__device__ inline float high_of(std::uint32_t pair) {
  return float(T::from_bits(std::uint16_t(pair >> 16)));
}

/// Calls visit(0), ..., visit(kCount - 1), each with a constant, so that arrays indexed by it stay in registers. (As in
/// kernels/cuda/pack.h, which belongs to a higher layer.)
template <int kCount, class Visit>
__device__ inline void unrolled(const Visit& visit) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (visit(I), ...); }
  (std::make_integer_sequence<int, kCount>());
}

}  // namespace lockstep::gpu::flash
