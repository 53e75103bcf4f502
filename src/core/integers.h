// Integer arithmetic that C++ leaves undefined, or rounds towards zero.
#pragma once

#include <cstdint>
#include <type_traits>

namespace lockstep {

/// What T adds and multiplies in. Integers wrap around, so theirs is unsigned.
template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

/// Rounded down; b > 0.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) noexcept { return a / b - (a % b < 0); }

}  // namespace lockstep
