// Copies of values that hold parameters: only where the program asks for one, since nobody would train it.
#pragma once

#include <concepts>

/// Inside of a class: auto b = a, for (auto layer : layers) and arguments by value do not compile. Class b(a), copy(a),
/// and copies of what holds one (structs, containers) do, since those start from a const one. (An explicit constructor
/// from const Class& would do but for GCC 12, which could not copy arrays of the class then.)
#define LOCKSTEP_COPIED_IF_ASKED(Class)         \
  template <std::same_as<Class> UseCopyInstead> \
  Class(UseCopyInstead&) = delete;              \
  explicit Class(Class&) = default;             \
  Class(const Class&) = default;                \
  Class(Class&&) noexcept = default;            \
  Class& operator=(const Class&)& = default;    \
  Class& operator=(Class&&)& noexcept = default
