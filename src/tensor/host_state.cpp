#include "tensor/host_state.h"

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {

void HostState::drop_gone() {
  std::erase_if(parts_, [](const Entry& entry) { return entry.part->is_gone(); });
  places_.clear();
  for (std::size_t i = 0; i < parts_.size(); ++i) places_[parts_[i].object] = i;
}

void HostState::begin() {
  drop_gone();
  for (const Entry& entry : parts_) entry.part->begin();
  has_begun_ = true;
}

void HostState::end(const ReplayValues& step) {
  drop_gone();
  for (const Entry& entry : parts_) entry.part->end(step);
}

const char* HostState::find_mismatch() {
  for (const Entry& entry : parts_)
    if (const char* const what = entry.part->find_mismatch()) return what;
  return nullptr;
}

void HostState::restore_captured() {
  for (const Entry& entry : parts_) entry.part->restore_captured();
  after_step();
}

void HostState::after_step() {
  for (const Entry& entry : parts_) entry.part->after_step();
}

const char* RequiredObject::find_mismatch() {
  if (object_.expired()) throw_gone_from_step(what_);
  return nullptr;
}

void throw_gone_from_step(const char* what) {
  throw InvalidArgument(text("[CapturedStep] the ", what,
                             " that the captured step uses was destroyed: call reset() before the function uses "
                             "another one"));
}

}  // namespace lockstep
