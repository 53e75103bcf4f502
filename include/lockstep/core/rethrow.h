// Where an exception comes from, added while it travels. Safe from any thread.
#pragma once

#include <exception>
#include <string>

#include <lockstep/core/export.h>

namespace lockstep::detail {

/// To be called while an exception is handled: throws it again as its own type with " (where)" in its message, if it
/// is an Error or one of the types of <stdexcept> itself, and unchanged otherwise.
[[noreturn]] LOCKSTEP_API void rethrow_with_context(const std::string& where);

/// What that throws while this exception is handled.
LOCKSTEP_API std::exception_ptr with_context(const std::exception_ptr& failure, const std::string& where);

}  // namespace lockstep::detail
