// Throws several failures of one operation as one exception.
#pragma once

#include <lockstep/core/error.h>

#include <exception>
#include <span>

namespace lockstep {

/// Throws the first failure, with the others attached to it if it is an Error. `failures` must not be empty.
[[noreturn]] inline void throw_first(std::span<const std::exception_ptr> failures) {
  try {
    std::rethrow_exception(failures.front());
  } catch (Error& error) {
    for (const std::exception_ptr& other : failures.subspan(1)) error.attach(other);
    throw;
  }
}

}  // namespace lockstep
