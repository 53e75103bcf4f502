#include "core/job_local.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

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
  std::size_t all = 0;
  for (const Variable& variable : variables()) all += variable.initial.size();
  if (all <= kMostBytes) return;
  std::fputs("lockstep: JobLocal::kMostBytes is too small\n", stderr);  // before main begins
  std::abort();
}

JobLocal::Fresh::Fresh() {
  std::byte* saved = outer_.data();
  for (const Variable& variable : variables()) {
    auto* const here = static_cast<std::byte*>(variable.find());
    std::memcpy(saved, here, variable.initial.size());
    saved += variable.initial.size();
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
