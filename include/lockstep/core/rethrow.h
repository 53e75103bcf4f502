// Adds the place where an exception comes from to its message while it propagates. Safe from any thread.
#pragma once

#include <exception>
#include <string>

#include <lockstep/core/export.h>

namespace lockstep::detail {

/// Call this while an exception is handled. Rethrows an Error, or an exception of exactly one of the types of
/// <stdexcept>, with its own type and " (where)" appended to its message; rethrows any other exception unchanged.
[[noreturn]] LOCKSTEP_API void rethrow_with_context(const std::string& where);

/// The exception that rethrow_with_context() throws while `failure` is handled.
LOCKSTEP_API std::exception_ptr with_context(const std::exception_ptr& failure, const std::string& where);

}  // namespace lockstep::detail
