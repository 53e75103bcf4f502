// The exception of a call, as text.
#pragma once

#include <exception>
#include <string>

namespace lockstep::testing {

/// Returns the message of the E that `call` throws; otherwise a text that says what happened instead.
template <class E, class F>
std::string thrown(F&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "nothing was thrown";
}

}  // namespace lockstep::testing
