// Maps a dtype to a C++ type. Only the functions of this file instantiate kernels for dtypes.
#pragma once

#include <type_traits>

#include <lockstep/core/dtype.h>

namespace lockstep {

/// The type in which arithmetic on T is done.
template <class T>
struct ComputeTypeOf {
  using type = T;
};
template <>
struct ComputeTypeOf<Half> {
  using type = float;
};
template <>
struct ComputeTypeOf<BFloat16> {
  using type = float;
};
template <class T>
using ComputeType = typename ComputeTypeOf<T>::type;

template <class T>
inline constexpr bool kNarrow = !std::is_same_v<ComputeType<T>, T>;

[[noreturn]] LOCKSTEP_API void throw_not_floating(const char* op, DType dtype);
[[noreturn]] LOCKSTEP_API void throw_not_numeric(const char* op);

/// Calls visitor.operator()<T>() with the C++ type T of `dtype`. Throws DTypeError naming `op` unless it is floating.
template <class Visitor>
decltype(auto) visit_floating(const char* op, DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case kFloat16: return visitor.template operator()<Half>();
    case kBFloat16: return visitor.template operator()<BFloat16>();
    case kFloat32: return visitor.template operator()<float>();
    case kFloat64: return visitor.template operator()<double>();
    default: throw_not_floating(op, dtype);
  }
}

/// Like visit_floating(), for every dtype except bool.
template <class Visitor>
decltype(auto) visit_numeric(const char* op, DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case kUInt8: return visitor.template operator()<std::uint8_t>();
    case kInt32: return visitor.template operator()<std::int32_t>();
    case kInt64: return visitor.template operator()<std::int64_t>();
    case kBool: throw_not_numeric(op);
    default: return visit_floating(op, dtype, visitor);
  }
}

/// Like visit_floating(), for every dtype.
template <class Visitor>
decltype(auto) visit_all(DType dtype, Visitor&& visitor) {
  if (dtype == kBool) return visitor.template operator()<bool>();
  return visit_numeric("visit", dtype, visitor);
}

/// Calls visitor.operator()<T>() for an unsigned integer of the dtype's size: for kernels that only move elements.
template <class Visitor>
decltype(auto) visit_bits(DType dtype, Visitor&& visitor) {
  switch (size_of(dtype)) {
    case 1: return visitor.template operator()<std::uint8_t>();
    case 2: return visitor.template operator()<std::uint16_t>();
    case 4: return visitor.template operator()<std::uint32_t>();
    default: return visitor.template operator()<std::uint64_t>();
  }
}

}  // namespace lockstep
