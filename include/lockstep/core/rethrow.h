// Where an exception comes from, added while it travels. Safe from any thread.
#pragma once

#include <string>

#include <lockstep/core/export.h>

namespace lockstep::detail {

/// To be called while an exception is handled: throws it again as its own type with " (where)" in its message, if it
/// is an Error or one of the types of <stdexcept> itself, and unchanged otherwise.
[[noreturn]] LOCKSTEP_API void rethrow_with_context(const std::string& where);

}  // namespace lockstep::detail
