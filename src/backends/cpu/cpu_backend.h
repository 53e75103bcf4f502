// The CPU as a device: work runs at once, on the thread that enqueues it, using all cores.
#pragma once

#include <memory>

#include "runtime/backend.h"

namespace lockstep {

std::shared_ptr<Backend> make_cpu_backend();

}  // namespace lockstep
