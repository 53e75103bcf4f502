// Escapes text for HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::train {

/// Escapes a text for content and for attributes. Control characters, which XML does not allow, become blanks.
std::string escaped(std::string_view plain);

}  // namespace lockstep::train
