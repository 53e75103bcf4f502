// How several failures of one operation are told as one.
#pragma once

#include <lockstep/core/error.h>

#include <exception>
#include <span>

namespace lockstep {

/// Throws the first of them, with the others attached if it is an Error. At least one is needed.
[[noreturn]] inline void throw_first(std::span<const std::exception_ptr> failures) {
  try {
    std::rethrow_exception(failures.front());
  } catch (Error& error) {
    for (const std::exception_ptr& other : failures.subspan(1)) error.attach(other);
    throw;
  }
}

}  // namespace lockstep
