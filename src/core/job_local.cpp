#include "core/job_local.h"

namespace lockstep {
namespace {

struct Variable {
  JobLocal::Find find;
  std::vector<std::byte> initial;
};

// Filled before main begins.
std::vector<Variable>& variables() {
  static auto& all = *new std::vector<Variable>;
  return all;
}

}  // namespace

void JobLocal::add(Find find, const void* initial, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(initial);
  variables().push_back({find, {begin, begin + bytes}});
}

JobLocal::Fresh::Fresh() {
  for (const Variable& variable : variables()) {
    auto* const here = static_cast<std::byte*>(variable.find());
    outer_.insert(outer_.end(), here, here + variable.initial.size());
    std::memcpy(here, variable.initial.data(), variable.initial.size());
  }
}

JobLocal::Fresh::~Fresh() {
  const std::byte* saved = outer_.data();
  for (const Variable& variable : variables()) {
    std::memcpy(variable.find(), saved, variable.initial.size());
    saved += variable.initial.size();
  }
}

}  // namespace lockstep
