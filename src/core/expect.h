// Checks of arguments, with the message that errors have: "[op] expected ..., got ...".
#pragma once

#include <string_view>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {

/// Unless `holds`, throws an E with the text "[op] expected " and the other parts, put together as by text():
/// expect(rows > 0, "split", "at least one row, got ", rows). The parts are evaluated in any case, so they must be
/// cheap.
template <class E = InvalidArgument, class... Parts>
void expect(bool holds, std::string_view op, const Parts&... expected_and_got) {
  if (!holds) throw E(text('[', op, "] expected ", expected_and_got...));
}

}  // namespace lockstep
