#include <lockstep/autograd/grad_mode.h>

#include <utility>

#include "core/context.h"

namespace lockstep {

bool grad_enabled() noexcept { return context().recording; }
GradMode::GradMode(bool enabled) noexcept : outer_(std::exchange(context().recording, enabled)) {}
GradMode::~GradMode() { context().recording = outer_; }

}  // namespace lockstep
