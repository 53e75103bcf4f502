// What LOCKSTEP_DEVICES asks for. Reads the environment for options of CUDA only.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/backend.h"

namespace lockstep {

/// "sim:N": N simulated GPUs; "cuda": all cards; "cuda:0,0,2": a device for each number, on that card; "none": null;
/// "": all cards where there are any, else null. Throws InvalidArgument for anything else, and BackendError for cards
/// where no driver answers.
std::shared_ptr<Backend> choose_backend(std::string_view choice);

}  // namespace lockstep
