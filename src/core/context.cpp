#include "core/context.h"

namespace lockstep::detail {

thread_local constinit Context own_context;
thread_local constinit Context* present_context = nullptr;

}  // namespace lockstep::detail
