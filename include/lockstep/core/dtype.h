// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

#include <lockstep/core/export.h>
#include <lockstep/core/float16.h>

namespace lockstep {

/// The enumerators are in the order of type promotion: an operation on two dtypes computes in the later one, except
/// that float16 with bfloat16 gives float32.
enum class DType : std::uint8_t { kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64 };

/// The enumerators without DType::, as in libtorch.
inline constexpr DType kBool = DType::kBool;
inline constexpr DType kUInt8 = DType::kUInt8;
inline constexpr DType kInt32 = DType::kInt32;
inline constexpr DType kInt64 = DType::kInt64;
inline constexpr DType kFloat16 = DType::kFloat16;
inline constexpr DType kBFloat16 = DType::kBFloat16;
inline constexpr DType kFloat32 = DType::kFloat32;
inline constexpr DType kFloat64 = DType::kFloat64;

/// libtorch's other names of the same dtypes.
inline constexpr DType kByte = kUInt8;
inline constexpr DType kInt = kInt32;
inline constexpr DType kLong = kInt64;
inline constexpr DType kHalf = kFloat16;
inline constexpr DType kFloat = kFloat32;
inline constexpr DType kDouble = kFloat64;

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  constexpr std::uint8_t kBytes[] = {1, 1, 4, 8, 2, 2, 4, 8};
  return kBytes[std::size_t(dtype)];
}
LOCKSTEP_API std::string_view name(DType dtype) noexcept;                       ///< "float32", for example.
constexpr bool is_floating(DType dtype) noexcept { return dtype >= kFloat16; }  ///< float16 to float64, bfloat16 too.
/// The dtype of an operation on both, by type promotion: see DType.
LOCKSTEP_API DType promote(DType a, DType b) noexcept;
/// Prints the dtype's name.
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
/// The dtype of elements of a C++ type.
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

}  // namespace lockstep
