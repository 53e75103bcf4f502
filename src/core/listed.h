// Names for messages: what there is, where something that is not there was asked for.
#pragma once

#include <cstddef>
#include <string>

#include "core/text.h"

namespace lockstep {

/// "a, b, c" of name_of(each); of many, the first ones, and how many more there are; "none" of none.
template <class Names, class NameOf>
std::string listed(const Names& names, const NameOf& name_of) {
  constexpr std::size_t kMost = 30;
  std::string list;
  std::size_t count = 0;
  for (const auto& name : names)
    if (count++ < kMost) list += text(count > 1 ? ", " : "", name_of(name));
  if (count > kMost) list += text(" and ", count - kMost, " more");
  return count == 0 ? "none" : list;
}

}  // namespace lockstep
