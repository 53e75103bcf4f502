#include "tensor/step_parts.h"

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep {

void StepParts::drop_gone() {
  std::erase_if(parts_, [](const Entry& entry) { return entry.part->is_gone(); });
  places_.clear();
  for (std::size_t i = 0; i < parts_.size(); ++i) places_[parts_[i].object] = i;
}

void StepParts::begin() {
  drop_gone();
  for (const Entry& entry : parts_) entry.part->begin();
  has_begun_ = true;
}

void StepParts::end(const StepValues& step) {
  drop_gone();
  for (const Entry& entry : parts_) entry.part->end(step);
}

const char* StepParts::change() {
  for (const Entry& entry : parts_)
    if (const char* const what = entry.part->change()) return what;
  return nullptr;
}

void StepParts::leave() {
  for (const Entry& entry : parts_) entry.part->leave();
  mark();
}

void StepParts::mark() {
  for (const Entry& entry : parts_) entry.part->mark();
}

const char* LivingPart::change() {
  if (object_.expired()) throw_gone_from_step(what_);
  return nullptr;
}

void throw_gone_from_step(const char* what) {
  throw InvalidArgument(text("[CapturedStep] expected the ", what,
                             " that the step uses to live as long as it, got one that is gone: call reset() before "
                             "the function uses another one"));
}

}  // namespace lockstep
