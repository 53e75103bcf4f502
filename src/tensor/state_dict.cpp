#include <lockstep/tensor/state_dict.h>

#include "core/listed.h"
#include "core/text.h"

namespace lockstep {

void StateDict::add(std::string key, Tensor value) {
  if (!positions_.emplace(key, entries_.size()).second)
    throw InvalidArgument(text("[state_dict] expected each key once, got \"", key, "\" again"));
  entries_.emplace_back(std::move(key), std::move(value));
}

const Tensor* StateDict::find(std::string_view key) const {
  const auto position = positions_.find(key);
  return position == positions_.end() ? nullptr : &entries_[position->second].second;
}

Tensor& StateDict::operator[](std::string_view key) {
  if (!contains(key)) add(std::string(key), {});
  return entries_[positions_.find(key)->second].second;
}

bool StateDict::erase(std::string_view key) {
  const auto position = positions_.find(key);
  if (position == positions_.end()) return false;
  const std::size_t at = position->second;
  entries_.erase(entries_.begin() + std::ptrdiff_t(at));
  positions_.erase(position);
  for (auto& [name, place] : positions_) place -= place > at;
  return true;
}

const Tensor& StateDict::at(std::string_view key) const {
  if (const Tensor* value = find(key)) return *value;
  throw InvalidArgument(text("[state_dict] expected an existing key (",
                             listed(entries_, [](const Entry& entry) { return entry.first; }), "), got ", key));
}

}  // namespace lockstep
