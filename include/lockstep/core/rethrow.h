// Adds the place where an exception comes from to its message while it propagates. Safe from any thread.
#pragma once

#include <exception>
#include <string>

#include <lockstep/core/export.h>

namespace lockstep::detail {

/// To be called while an exception is handled. Rethrows it with its own type and " (where)" appended to its message if
/// it is an Error or exactly one of the types of <stdexcept>; rethrows it unchanged otherwise.
[[noreturn]] LOCKSTEP_API void rethrow_with_context(const std::string& where);

/// The exception that rethrow_with_context() throws while `failure` is handled.
LOCKSTEP_API std::exception_ptr with_context(const std::exception_ptr& failure, const std::string& where);

}  // namespace lockstep::detail
