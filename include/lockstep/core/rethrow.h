// Adds the place where an exception comes from to its message while it propagates. Safe from any thread.
#pragma once

#include <exception>
#include <string>

#include <lockstep/core/export.h>

namespace lockstep::detail {

/// Call this while an exception is handled. Rethrows the exception with its own type, and with " (where)" appended to
/// its message if it is an Error, or if its type is exactly one of <stdexcept>, such as std::runtime_error. Any other
/// exception is rethrown unchanged. That includes exceptions of classes that a program has derived from those of
/// <stdexcept>.
[[noreturn]] LOCKSTEP_API void rethrow_with_context(const std::string& where);

/// The exception that rethrow_with_context() throws while `failure` is handled.
LOCKSTEP_API std::exception_ptr with_context(const std::exception_ptr& failure, const std::string& where);

}  // namespace lockstep::detail
