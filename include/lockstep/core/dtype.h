// Element types of tensors, and the 16-bit floating-point types that C++20 lacks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

#include <lockstep/core/export.h>

// The mark of a function that runs on the host and on a GPU.
#ifdef __CUDACC__
#define LOCKSTEP_HD __host__ __device__
#else
#define LOCKSTEP_HD
#endif

namespace lockstep {

/// In order of type promotion within a kind: an operation on two dtypes computes in the later one,
/// except that float16 with bfloat16 gives float32.
enum class DType : std::uint8_t { kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64 };

inline constexpr DType kBool = DType::kBool;
inline constexpr DType kUInt8 = DType::kUInt8;
inline constexpr DType kInt32 = DType::kInt32;
inline constexpr DType kInt64 = DType::kInt64;
inline constexpr DType kFloat16 = DType::kFloat16;
inline constexpr DType kBFloat16 = DType::kBFloat16;
inline constexpr DType kFloat32 = DType::kFloat32;
inline constexpr DType kFloat64 = DType::kFloat64;

/// IEEE binary16. Arithmetic happens in float: convert, compute, convert back (round to nearest even).
class Half {
 public:
  Half() = default;
  LOCKSTEP_HD Half(float value) : bits_(from_float(value)) {}
  LOCKSTEP_HD operator float() const { return to_float(bits_); }

  LOCKSTEP_HD static Half from_bits(std::uint16_t bits) {
    Half half;
    half.bits_ = bits;
    return half;
  }
  LOCKSTEP_HD std::uint16_t bits() const { return bits_; }

 private:
  // Rounding by adding a magic float: the sum's exponent places the binary16 mantissa at the low bits.
  LOCKSTEP_HD static std::uint16_t from_float(float value) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000u;
    const std::uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return std::uint16_t(sign | 0x7e00u);   // NaN
    if (magnitude >= 0x47800000u) return std::uint16_t(sign | 0x7c00u);  // 65536 and above: infinity
    if (magnitude < 0x38800000u) {                                       // below 2^-14: subnormal
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      return std::uint16_t(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    return std::uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
  }
  LOCKSTEP_HD static float to_float(std::uint16_t bits) {
    const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = std::uint32_t(bits & 0x7fffu) << 13;
    if (magnitude >= 0x0f800000u)  // infinity or NaN
      return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x007fffffu));
    if (magnitude < 0x00800000u) {  // zero or subnormal: count in units of 2^-24
      const float value = float(bits & 0x7fffu) * 0x1p-24f;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | (magnitude + 0x38000000u));
  }

  std::uint16_t bits_;
};

/// The upper half of a binary32. Arithmetic happens in float, rounding to nearest even.
class BFloat16 {
 public:
  BFloat16() = default;
  LOCKSTEP_HD BFloat16(float value) : bits_(from_float(value)) {}
  LOCKSTEP_HD operator float() const { return std::bit_cast<float>(std::uint32_t(bits_) << 16); }

  LOCKSTEP_HD static BFloat16 from_bits(std::uint16_t bits) {
    BFloat16 number;
    number.bits_ = bits;
    return number;
  }
  LOCKSTEP_HD std::uint16_t bits() const { return bits_; }

 private:
  LOCKSTEP_HD static std::uint16_t from_float(float value) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) return std::uint16_t((word >> 16) | 0x0040u);  // a quiet NaN
    return std::uint16_t((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }

  std::uint16_t bits_;
};

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  constexpr std::uint8_t kBytes[] = {1, 1, 4, 8, 2, 2, 4, 8};
  return kBytes[std::size_t(dtype)];
}
LOCKSTEP_API std::string_view name(DType dtype) noexcept;
constexpr bool is_floating(DType dtype) noexcept { return dtype >= kFloat16; }
LOCKSTEP_API DType promote(DType a, DType b) noexcept;
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, DType dtype);

/// The dtype whose elements are T.
template <class T>
struct DTypeOf;
// clang-format off
template <> struct DTypeOf<bool> { static constexpr DType value = kBool; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = kUInt8; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = kInt32; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = kInt64; };
template <> struct DTypeOf<Half> { static constexpr DType value = kFloat16; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = kBFloat16; };
template <> struct DTypeOf<float> { static constexpr DType value = kFloat32; };
template <> struct DTypeOf<double> { static constexpr DType value = kFloat64; };
// clang-format on
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

}  // namespace lockstep
