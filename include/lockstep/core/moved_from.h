// What a class that owns something through a pointer says when it is used after it was moved from: then it can only be
// assigned and destroyed.
#pragma once

#include <utility>

#include <lockstep/core/export.h>

namespace lockstep::detail {

/// Throws InvalidArgument: "[type] expected what, got one that was moved from". Both are literals.
[[noreturn]] LOCKSTEP_API void throw_moved_from(const char* type, const char* what);

/// A member that knows whether its object was moved from.
struct MovedFrom {
  bool value = false;

  MovedFrom() = default;
  MovedFrom(const MovedFrom&) = default;
  MovedFrom& operator=(const MovedFrom&) = default;
  MovedFrom(MovedFrom&& other) noexcept : value(std::exchange(other.value, true)) {}
  MovedFrom& operator=(MovedFrom&& other) noexcept {
    const bool was = std::exchange(other.value, true);  // first: it may be this one
    value = was;
    return *this;
  }
};

/// What `pointer` points to. Throws as throw_moved_from() if it is null.
template <class Pointer>
decltype(auto) there(const Pointer& pointer, const char* type, const char* what) {
  if (!pointer) throw_moved_from(type, what);
  return *pointer;
}

}  // namespace lockstep::detail
