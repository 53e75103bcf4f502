// Lists names in a message, such as the valid choices after the caller named another.
#pragma once

#include <cstddef>
#include <string>

#include "core/text.h"

namespace lockstep {

/// Returns "a, b, c" from name_of(each). If there are more than 30 names, lists the first 30 and says how many more
/// there are. Returns "none" for an empty list.
template <class Names, class NameOf>
std::string listed(const Names& names, const NameOf& name_of) {
  constexpr std::size_t kMaxNames = 30;
  std::string list;
  std::size_t count = 0;
  for (const auto& name : names)
    if (count++ < kMaxNames) list += text(count > 1 ? ", " : "", name_of(name));
  if (count > kMaxNames) list += text(" and ", count - kMaxNames, " more");
  return count == 0 ? "none" : list;
}

}  // namespace lockstep
