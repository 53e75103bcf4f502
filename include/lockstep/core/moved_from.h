// The error of classes that own their state through a pointer, when an object is used after a move. A moved-from object
// can only be assigned to and destroyed.
#pragma once

#include <utility>

#include <lockstep/core/export.h>

namespace lockstep::detail {

/// Throws InvalidArgument: "[type] expected what, got one that was moved from". `type` and `what` are string literals.
[[noreturn]] LOCKSTEP_API void throw_moved_from(const char* type, const char* what);

/// A member that becomes true when its object is moved from.
struct MovedFrom {
  bool value = false;

  MovedFrom() = default;
  MovedFrom(const MovedFrom&) = default;
  MovedFrom& operator=(const MovedFrom&) = default;
  MovedFrom(MovedFrom&& other) noexcept : value(std::exchange(other.value, true)) {}
  MovedFrom& operator=(MovedFrom&& other) noexcept {
    const bool was = std::exchange(other.value, true);  // before `value` is set: `other` may be *this
    value = was;
    return *this;
  }
};

/// Returns *pointer. If `pointer` is null, calls throw_moved_from().
template <class Pointer>
decltype(auto) checked_deref(const Pointer& pointer, const char* type, const char* what) {
  if (!pointer) throw_moved_from(type, what);
  return *pointer;
}

}  // namespace lockstep::detail
