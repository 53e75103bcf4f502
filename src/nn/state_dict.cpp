#include <lockstep/nn/state_dict.h>

#include <algorithm>

#include "core/text.h"

namespace lockstep {

void StateDict::add(std::string key, Tensor value) {
  if (find(key)) throw InvalidArgument(text("[state_dict] expected each key once, got \"", key, "\" again"));
  entries_.emplace_back(std::move(key), std::move(value));
}

const Tensor* StateDict::find(std::string_view key) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == key; });
  return entry == entries_.end() ? nullptr : &entry->second;
}

const Tensor& StateDict::at(std::string_view key) const {
  if (const Tensor* value = find(key)) return *value;
  throw InvalidArgument(text("[state_dict] expected one of ", size(), " keys, got \"", key, "\""));
}

}  // namespace lockstep
