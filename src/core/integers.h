// Integer arithmetic for cases in which C++ has undefined overflow or rounds towards zero.
#pragma once

#include <cstdint>
#include <type_traits>

namespace lockstep {

/// The type in which T adds and multiplies: unsigned for integers, so that they wrap around.
template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

/// a / b rounded down; b > 0.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) noexcept { return a / b - (a % b < 0); }

}  // namespace lockstep
