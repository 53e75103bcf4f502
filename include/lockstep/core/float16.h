// The 16-bit floating-point types that C++20 lacks, with the same bits on the host and on a GPU.
#pragma once

#include <bit>
#include <cstdint>

#include <lockstep/core/export.h>

// Marks functions that run on the host and on a GPU. Clang inlines all of them into the loops that call them, so that
// they are compiled for the loop's instruction set (core/vectorized.h).
#if defined(__CUDACC__)
#define LOCKSTEP_HD __host__ __device__
#elif defined(__clang__) && defined(__OPTIMIZE__)
#define LOCKSTEP_HD __attribute__((always_inline))
#else
#define LOCKSTEP_HD
#endif

namespace lockstep {

// A GPU converts with one instruction, which rounds as the host does and returns the canonical NaN for every NaN (PTX
// ISA, cvt).
namespace float16 {

LOCKSTEP_HD inline bool is_nan(std::uint32_t word) { return (word & 0x7fffffffu) > 0x7f800000u; }
LOCKSTEP_HD inline std::uint16_t half_nan(std::uint32_t word) {
  return std::uint16_t((word >> 16 & 0x8000u) | 0x7e00u);
}
LOCKSTEP_HD inline std::uint16_t bfloat16_nan(std::uint32_t word) { return std::uint16_t((word >> 16) | 0x0040u); }

}  // namespace float16

/// IEEE binary16. Arithmetic happens in float: convert, compute, convert back (round to nearest even).
class Half {
 public:
  Half() = default;
  /// Rounds to nearest, ties to even.
  LOCKSTEP_HD Half(float value) : bits_(from_float(value)) {}
  LOCKSTEP_HD operator float() const { return to_float(bits_); }  ///< Exact.

  /// The number with these bits.
  LOCKSTEP_HD static Half from_bits(std::uint16_t bits) {
    Half half;
    half.bits_ = bits;
    return half;
  }
  LOCKSTEP_HD std::uint16_t bits() const { return bits_; }  ///< The IEEE 754 encoding.

 private:
  // Rounds by adding a magic float: the sum's exponent places the binary16 mantissa at the low bits.
  LOCKSTEP_HD static std::uint16_t from_float(float value) {
#ifdef __CUDA_ARCH__
    std::uint16_t converted;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(converted) : "f"(value));
    return converted;
#else
    const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000u;
    const std::uint32_t magnitude = word & 0x7fffffffu;
    if (float16::is_nan(word)) return float16::half_nan(word);
    if (magnitude >= 0x47800000u) return std::uint16_t(sign | 0x7c00u);  // 65536 and above: infinity
    if (magnitude < 0x38800000u) {                                       // below 2^-14: subnormal
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      return std::uint16_t(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    return std::uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
#endif
  }
  LOCKSTEP_HD static float to_float(std::uint16_t bits) {
#ifdef __CUDA_ARCH__
    float converted;
    asm("cvt.f32.f16 %0, %1;" : "=f"(converted) : "h"(bits));
    return converted;
#else
    const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = std::uint32_t(bits & 0x7fffu) << 13;
    if (magnitude >= 0x0f800000u)  // infinity or NaN
      return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x007fffffu));
    if (magnitude < 0x00800000u) {  // zero or subnormal: count in units of 2^-24
      const float value = float(bits & 0x7fffu) * 0x1p-24f;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | (magnitude + 0x38000000u));
#endif
  }

  std::uint16_t bits_;
};

/// The upper half of a binary32. Arithmetic happens in float, rounding to nearest even.
class BFloat16 {
 public:
  BFloat16() = default;
  /// Rounds to nearest, ties to even.
  LOCKSTEP_HD BFloat16(float value) : bits_(from_float(value)) {}
  LOCKSTEP_HD operator float() const { return std::bit_cast<float>(std::uint32_t(bits_) << 16); }  ///< Exact.

  /// The number with these bits.
  LOCKSTEP_HD static BFloat16 from_bits(std::uint16_t bits) {
    BFloat16 number;
    number.bits_ = bits;
    return number;
  }
  LOCKSTEP_HD std::uint16_t bits() const { return bits_; }  ///< The upper half of the float's bits.

 private:
  LOCKSTEP_HD static std::uint16_t from_float(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    std::uint16_t converted;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(converted) : "f"(value));
    return converted;
#else
    const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    return float16::is_nan(word) ? float16::bfloat16_nan(word) : std::uint16_t(rounded);  // a quiet NaN
#endif
  }

  std::uint16_t bits_;
};

}  // namespace lockstep
