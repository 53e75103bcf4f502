#include <lockstep/core/choice.h>

#include <algorithm>
#include <string>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::detail {

std::size_t find_choice(const char* option, std::span<const std::string_view> names, std::string_view got) {
  const auto found = std::ranges::find(names, got);
  if (found != names.end()) return std::size_t(found - names.begin());
  std::string all;
  for (const std::string_view name : names) all += text(all.empty() ? "" : ", ", '"', name, '"');
  throw InvalidArgument(text('[', option, "] expected one of ", all, ", got \"", got, '"'));
}

}  // namespace lockstep::detail
