// Text in HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::train {

/// As content or in an attribute, whatever it holds. A control character, which XML has none of, becomes a blank.
std::string escaped(std::string_view plain);

}  // namespace lockstep::train
