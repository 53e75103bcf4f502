// Objects that hold parameters are copied only explicitly, because an accidental copy would have parameters of its own,
// which no optimizer knows.
#pragma once

#include <concepts>

#include <lockstep/core/export.h>

/// Write this in the body of a class to make its copies explicit. Then auto b = a, for (auto layer : layers) and
/// by-value arguments do not compile. Class b(a), copy(a), and copies of structs and containers that hold the class
/// compile, because these copy from a const Class. (An explicit constructor from const Class& would suffice, but then
/// GCC 12 could not copy arrays of the class.)
#define LOCKSTEP_COPIED_IF_ASKED(Class)         \
  template <std::same_as<Class> UseCopyInstead> \
  Class(UseCopyInstead&) = delete;              \
  explicit Class(Class&) = default;             \
  Class(const Class&) = default;                \
  Class(Class&&) noexcept = default;            \
  Class& operator=(const Class&)& = default;    \
  Class& operator=(Class&&)& noexcept = default
